"""The milvus backend's view: searches of `bm25` and `dense` go to Milvus, all others to the indexes on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from surefind.base.abilities import declared
from surefind.base.access import Access
from surefind.base.errors import CorruptIndexError, NotBuiltError
from surefind.base.protocols import Index, Retriever
from surefind.base.types import EVERY, Mask
from surefind.engine.store.backends.milvus.expressions import Expressions
from surefind.engine.store.backends.milvus.indexes import RemoteMask, RemoteVectors, RemoteWords
from surefind.engine.store.backends.milvus.record import Record, is_remote, record_key, remote_spec, remote_specs
from surefind.engine.store.backends.milvus.server import Server
from surefind.engine.store.backends.view import LocalView
from surefind.engine.store.indexes import IndexStore
from surefind.engine.store.needs import each_needed


class MilvusView(LocalView):
    """Implements `View` on a table on this machine and collections in Milvus."""

    _server: Server
    _records: IndexStore
    _contents: int

    def connect(self, server: Server, records: IndexStore, contents: int) -> None:
        """Says where the rows of this set are, and the records about them."""
        self._server = server
        self._records = records
        self._contents = contents

    @cached_property
    def _expressions(self) -> Expressions:
        return Expressions(self.table, self._rules)

    def _resolve(self, access: Access) -> tuple[Mask, int]:
        """Adds the expression to the mask. The mask on this machine is computed as well: it refuses unknown keys, and
        what Milvus returns is checked against it."""
        mask, hidden = super()._resolve(access)
        return (mask if mask is EVERY else RemoteMask(mask.bits, self._expressions.of(access))), hidden

    def missing(self, retrievers: Sequence[Retriever]) -> list[Retriever]:
        local = super().missing([retriever for retriever in each_needed(retrievers) if not is_remote(retriever)])
        remote = remote_specs(retrievers, self._services)
        return [
            *(retriever for retriever in local if not is_remote(retriever)),
            *(retriever for spec, retriever in remote.items() if not self._there(spec)),
        ]

    def _there(self, spec: str) -> bool:
        key = record_key(self._contents, self.layout, spec)
        return self._records.has(key) and self._server.exists(self._read(key).alias)

    def _open(self, retriever: Retriever) -> Index:
        wraps = declared(retriever).inner is not None
        return super()._open(retriever) if wraps or not is_remote(retriever) else self._remote(retriever)

    def _remote(self, retriever: Any) -> RemoteWords | RemoteVectors:
        key = record_key(self._contents, self.layout, remote_spec(retriever, self._services))
        if not self._records.has(key):
            raise NotBuiltError(
                f"Milvus has no index for {retriever} over these documents. Build it with surefind sync (for the "
                "pipelines in surefind.toml), surefind search (for the pipeline that you give it), or kb.build(...)."
            )
        record = self._read(key)
        check_complete(self._server, record, len(self))
        if retriever.name == "bm25":
            return RemoteWords(self._server, record, self.table, retriever.analyzer)
        return RemoteVectors(self._server, record, self.table, self._services.embedder(retriever.model))

    def _read(self, key: str) -> Record:
        try:
            return self._records.read(key, Record.load)
        except CorruptIndexError as error:
            raise NotBuiltError(f"{error} Rebuild it with: surefind sync.") from error


def check_complete(server: Server, record: Record, rows: int) -> None:
    """Raises `NotBuiltError` if a collection does not have all rows of a set, or has others."""
    if server.target(record.alias) != record.collection:
        raise NotBuiltError(
            f"Milvus at {server.uri} does not have this generation. Write it again with: surefind sync."
        )
    server.load(record.collection)
    count = server.count(record.collection, record.expression)
    if count != rows:
        raise NotBuiltError(
            f"Milvus has {count} passages of this generation instead of {rows}. Write them again with: surefind sync."
        )
