"""A Milvus server, or a milvus-lite folder: the calls that the backend needs, with errors in one sentence.

Consistency: a set of documents never changes after its alias was made. The writer makes the alias after it counted the
rows with consistency `Strong`, and a reader counts them in the same way when it opens the set. Searches after that use
`Bounded`: they do not wait for the newest writes, which belong to sets that this reader does not show.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from surefind.base.errors import ConfigError, LockedError, MissingPartError, StoreError
from surefind.engine.net import trust

MAX_HITS = 16_384
"""The most hits that Milvus returns for a query."""
CAPACITY = 4096
"""The most elements of an array in Milvus."""
_PAUSES = (0.5, 1.0, 2.0, 4.0)
"""Seconds before a write is tried again."""
_CONNECT, _READ, _WRITE = 10.0, 30.0, 120.0
"""Seconds that a call may take."""
_QUIET = {"grpc.keepalive_time_ms": 3_600_000, "grpc.keepalive_permit_without_calls": 0}
"""milvus-lite closes a connection that is checked every ten seconds, as pymilvus does while it waits."""
_LISTED = 1000
"""Numbers in one expression of a deletion."""
Result = TypeVar("Result")
Vector = Literal["sparse", "dense"]

_clients: dict[tuple[str, str], Any] = {}
_opening = threading.Lock()


def server_of(uri: str, token_env: str, folder: Path) -> Server:
    """Returns the server of a setting `uri`: an address, or the path of a milvus-lite folder, relative to the knowledge
    base's folder. Nothing is connected yet."""
    if uri.startswith(("http://", "https://")):
        trust.check(uri, token_env)
        return Server(uri, _token(token_env))
    return Server(str(folder / Path(uri).expanduser()), "")


def _token(token_env: str) -> str:
    if token_env and not os.environ.get(token_env):
        raise ConfigError(f"The environment variable {token_env} is not set. token_env names it as Milvus's token.")
    return os.environ.get(token_env, "") if token_env else ""


class Server:
    """The calls to one Milvus server. Threads may share it."""

    def __init__(self, uri: str, token: str = "", client: Any = None) -> None:
        """`client` replaces the connection, for tests."""
        self.uri = uri
        self.embedded = "://" not in uri
        """Whether it is a milvus-lite folder, which one process can open at a time."""
        self._token = token
        self._own = client

    # ------------------------------------------------------------ collections and aliases

    def collections(self, prefix: str) -> list[str]:
        """Returns the names of the collections that begin with a prefix."""
        return [name for name in self._call("list_collections", _READ) if name.startswith(prefix)]

    def create(self, name: str, kind: Vector, dimension: int) -> None:
        """Creates an empty collection."""
        from pymilvus import DataType

        client = self._client()
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("version", DataType.INT64)
        schema.add_field("first", DataType.INT64)
        for field in ("acl", "under", "tags"):
            schema.add_field(field, DataType.ARRAY, element_type=DataType.INT64, max_capacity=CAPACITY)
        if kind == "sparse":
            schema.add_field("vector", DataType.SPARSE_FLOAT_VECTOR)
        else:
            schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
        indexes = client.prepare_index_params()
        indexes.add_index("vector", metric_type="IP", **_vector_index(kind, self.embedded))
        for field in () if self.embedded else ("version", "first", "acl", "under", "tags"):
            indexes.add_index(field, index_type="INVERTED")
        self._call("create_collection", _WRITE, name, schema=schema, index_params=indexes, consistency_level="Bounded")

    def drop(self, name: str) -> None:
        """Deletes a collection without aliases."""
        self._call("drop_collection", _WRITE, name)

    def load(self, name: str) -> None:
        """Makes a collection searchable."""
        self._call("load_collection", _WRITE, name)

    def flush(self, name: str) -> None:
        """Writes everything that was inserted to the server's storage."""
        self._again(lambda: self._call("flush", _WRITE, name))

    def aliases(self, name: str) -> list[str]:
        """Returns the aliases of a collection."""
        return list(self._call("list_aliases", _READ, collection_name=name)["aliases"])

    def exists(self, name: str) -> bool:
        """Returns whether there is a collection or an alias with this name."""
        return bool(self._call("has_collection", _READ, name))

    def target(self, alias: str) -> str:
        """Returns the collection that an alias stands for; empty if there is no such alias."""
        return str(self._call("describe_alias", _READ, alias)["collection_name"]) if self.exists(alias) else ""

    def point(self, alias: str, name: str) -> None:
        """Makes an alias stand for a collection, in one step."""
        self._call("alter_alias" if self.exists(alias) else "create_alias", _WRITE, name, alias)

    def unpoint(self, alias: str) -> None:
        """Deletes an alias."""
        self._call("drop_alias", _WRITE, alias)

    # ------------------------------------------------------------ rows

    def write(self, name: str, rows: Sequence[dict[str, Any]]) -> None:
        """Writes rows. A row that is written again replaces itself, so a failed call is simply repeated."""
        if rows:
            self._again(lambda: self._call("upsert", _WRITE, name, list(rows)))

    def delete(self, name: str, expression: str) -> None:
        """Deletes the rows that an expression matches."""
        self._again(lambda: self._call("delete", _WRITE, name, filter=expression))

    def delete_versions(self, name: str, versions: Iterable[int]) -> None:
        """Deletes the rows of these versions."""
        listed = [int(version) for version in versions]
        for at in range(0, len(listed), _LISTED):
            self.delete(name, f"version in {listed[at : at + _LISTED]}")

    def count(self, name: str, expression: str) -> int:
        """Counts the rows that an expression matches, including everything that was written before this call."""
        rows = self._call(
            "query", _READ, name, filter=expression, output_fields=["count(*)"], consistency_level="Strong"
        )
        return int(rows[0]["count(*)"])

    def search(
        self, name: str, kind: Vector, vectors: Sequence[Any], k: int, expression: str
    ) -> list[list[tuple[int, float]]]:
        """Returns the (id, score) of the k best rows for each vector, among those that the expression matches."""
        exact = kind == "sparse" or self.embedded
        rows = self._call(
            "search", _READ, name, data=list(vectors), anns_field="vector", limit=k, filter=expression,
            search_params={"metric_type": "IP", "params": {} if exact else {"ef": max(128, 2 * k)}},
            output_fields=["id"], consistency_level="Bounded",
        )  # fmt: skip
        return [[(int(hit["id"]), float(hit["distance"])) for hit in row] for row in rows]

    def vectors(self, name: str, ids: Sequence[int]) -> dict[int, Any]:
        """Returns the vectors of rows, by id."""
        found: dict[int, Any] = {}
        for at in range(0, len(ids), _LISTED):
            rows = self._call("get", _READ, name, ids=list(ids[at : at + _LISTED]), output_fields=["vector"])
            found |= {int(row["id"]): row["vector"] for row in rows}
        return found

    # ------------------------------------------------------------ calls

    def _again(self, work: Callable[[], Result]) -> Result:
        """Does work, and does it again after a while if the server failed."""
        for pause in _PAUSES:
            try:
                return work()
            except StoreError:
                time.sleep(pause)
        return work()

    def _call(self, method: str, seconds: float, *args: Any, **options: Any) -> Any:
        client = self._client()
        import grpc
        from pymilvus import MilvusException

        try:
            return getattr(client, method)(*args, timeout=seconds, **options)
        except (MilvusException, grpc.RpcError) as error:
            raise StoreError(
                f"Milvus at {self.uri} failed ({method}: {_reason(error)}). Check that the server runs and has room, "
                "and try again."
            ) from error

    def _client(self) -> Any:
        if self._own is not None:
            return self._own
        with _opening:  # one connection for all: milvus-lite would start a server for each
            key = (self.uri, self._token)
            if key not in _clients:
                _clients[key] = self._connected()
            return _clients[key]

    def _connected(self) -> Any:
        try:
            from pymilvus import MilvusClient, MilvusException
        except ModuleNotFoundError:
            raise MissingPartError(
                "The milvus backend needs the package pymilvus. Install it with: pip install 'surefind[milvus]'."
            ) from None
        for name in ("pymilvus", "pymilvus.decorators", "milvus_lite", "milvus_lite.server_manager", "grpc._server"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # they print a traceback of every error that we explain
        try:
            if self.embedded:
                Path(self.uri).parent.mkdir(parents=True, exist_ok=True)
            options = {"grpc_options": _QUIET} if self.embedded else {}
            return MilvusClient(self.uri, token=self._token, timeout=_CONNECT, **options)
        except MilvusException as error:
            if self.embedded:
                raise LockedError(
                    f"The milvus-lite folder {self.uri} cannot be opened ({_reason(error)}). Another process may use "
                    "it: milvus-lite serves one process at a time. Stop that process, or use a Milvus server."
                ) from error
            raise StoreError(
                f"Milvus at {self.uri} does not answer ({_reason(error)}). Start the server, or correct uri and "
                "token_env below [store] in surefind.toml."
            ) from error


def _vector_index(kind: Vector, embedded: bool) -> dict[str, Any]:
    """Returns the index of the vectors. Sparse search is exact; dense search is exact in milvus-lite."""
    if kind == "sparse":
        return {"index_type": "SPARSE_INVERTED_INDEX"}
    if embedded:
        return {"index_type": "FLAT"}
    return {"index_type": "HNSW", "params": {"M": 16, "efConstruction": 200}}


def _reason(error: Any) -> str:
    """The message of an error of Milvus or of its transport."""
    text = getattr(error, "message", "") or (error.details() if hasattr(error, "details") else "") or str(error)
    return str(text).strip().rstrip(".") or type(error).__name__
