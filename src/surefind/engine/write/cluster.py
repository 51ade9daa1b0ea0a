"""Prepares files on a Ray cluster: `surefind sync --ray ADDRESS`.

Tasks depend on nothing but the bytes of a file and the settings, and only this process writes to the catalogue, in the
order of the files. So Ray may run a task again when a node is lost, and the result is that of one process: no document
is lost, and none is there twice. What a task prepared is kept in a checkpoint until the sync is done: a sync that was
stopped, with this machine or without it, does not prepare it again.

Prepares files on a node of a Ray cluster: the task that `write.cluster` sends there.

A node need not see the folders of the sync: the bytes of a file come with the task. The file is read by a child process
under the same limits as on one machine, and the answer is JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import tempfile
import threading
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from surefind import __version__
from surefind.base.errors import MissingPartError, SourceError, StoreError
from surefind.base.protocols import Reader
from surefind.engine.files.opening import FileLimits, read_bytes
from surefind.engine.files.readers import Readers
from surefind.engine.store.cache import Cache, remove
from surefind.engine.write.prepare import Prepared, PrepareTask, from_data
from surefind.engine.write.preparing import FilePreparer, check_answer, settings_of


def prepared_here(settings: str, request: str, path: str, data: bytes | None) -> str:
    """Answers a request for a file or a document; `data` are the bytes of the file at `path`. Returns JSON."""
    if data is None:
        return _answered(settings, request)
    with tempfile.TemporaryDirectory(prefix="surefind-") as folder:
        here = Path(folder) / Path(path).name
        here.write_bytes(data)
        answer = _answered(settings, json.dumps({**json.loads(request), "path": str(here), "real": ""}))
        return answer.replace(json.dumps(str(here))[1:-1], json.dumps(path)[1:-1])  # messages name the file as it is


def installed_version() -> str:
    """Returns this node's version of Surefind."""
    return __version__


def _answered(settings: str, request: str) -> str:
    try:
        answer = _reading(settings).answer(request)
    except MissingPartError as error:
        answer = {"missing": str(error)}
    except SourceError as error:
        answer = {"refused": str(error)}
    return json.dumps(answer)


@lru_cache(maxsize=2)
def _reading(settings: str) -> FilePreparer:
    """The child process of this worker; it serves all tasks with the same settings."""
    given = json.loads(settings)
    return FilePreparer(Readers(tuple(given["readers"])), FileLimits(**given["limits"]))


_RETRIES = 5
"""How often Ray runs a task again if its node or process dies. After that, this machine does the work."""
_START_SECONDS = 180.0
"""Seconds that a node may take to start its first process."""
_CONNECT = 10.0
"""Seconds in which a cluster must answer."""
_LOOK_UP = 1.0
"""Seconds after which a waiting thread looks whether the sync has ended."""
_MAX_WAITING = 256
"""Tasks that wait for the cluster at the same time, at most."""


def connect(address: str) -> Any:
    """Connects to a Ray cluster, and returns the package."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report to its makers
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingPartError("--ray needs the package ray. Install it with: pip install 'surefind[ray]'.") from None
    try:
        _check_port(address)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # Ray raises errors of many kinds
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise StoreError(
            f"The Ray cluster {address} cannot be reached ({reason}). Start one with ray start --head, and give its "
            "address, such as 127.0.0.1:6379."
        ) from None
    return ray


def _check_port(address: str) -> None:
    """Raises `OSError` if nothing listens at HOST:PORT. Ray itself would wait for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        with socket.create_connection((host, int(port)), timeout=_CONNECT):
            pass


def cpus(ray: Any) -> int:
    """Returns the number of CPUs of a cluster."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def check_versions(ray: Any, address: str) -> None:
    """Raises `StoreError` if a node has another version of Surefind, or none: its results would differ."""
    ask = ray.remote(num_cpus=0)(installed_version)
    for node in nodes(ray):
        try:
            version = ray.get(ask.options(scheduling_strategy=node).remote(), timeout=_START_SECONDS)
        except Exception as error:  # the package may be missing there, or too old to have the function
            version = f"none that answers ({type(error).__name__})"
        if version != __version__:
            raise StoreError(
                f"A node of the Ray cluster {address} has Surefind {version}, and this machine has {__version__}. "
                "Install the same version everywhere."
            )


def nodes(ray: Any) -> list[Any]:
    """Returns a scheduling strategy for each node that is alive."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    alive = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    return [NodeAffinitySchedulingStrategy(node_id=node, soft=False) for node in alive]


class ClusterPreparer(FilePreparer):
    """Does what `FilePreparer` does, on the nodes of a cluster."""

    def __init__(self, readers: Readers, limits: FileLimits, address: str, checkpoint: Path) -> None:
        super().__init__(readers, limits)
        self._address = address
        self._checkpoint = Cache(checkpoint, "prepared", ["answer BLOB"])
        self._settings = settings_of(limits, readers)[0]
        self._calls = threading.Condition()
        self._waiting_calls = 0
        self._ray: Any = None
        self._task: Callable[..., Any] = prepared_here

    def __enter__(self) -> Self:
        self._ray = connect(self._address)
        self._task = self._ray.remote(max_retries=_RETRIES, num_cpus=1)(prepared_here).remote
        try:
            check_versions(self._ray, self._address)
        except BaseException:
            self._ray.shutdown()
            raise
        self.processes = min(_MAX_WAITING, 2 * cpus(self._ray))  # a task waits on its node while another is sent
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        with self._calls:  # a call after the end would start a cluster of its own
            self._calls.wait_for(lambda: not self._waiting_calls)
        self._checkpoint.close()
        if kind is None:
            remove(self._checkpoint.path)
        self._ray.shutdown()

    def start(self) -> None:
        """Does nothing: the nodes start their processes."""

    def read(self, reader: Reader, path: Path, document_id: str, layout: str = "", real: str = "") -> Prepared:
        data = read_bytes(path, real, self.limits.file_mb)
        request = PrepareTask(str(reader), str(path), document_id, layout).to_json()
        return from_data(check_answer(self._prepared(request, str(path), data)))

    def answer(self, request: str) -> dict[str, Any]:
        return check_answer(self._prepared(request, "", None))

    def _prepared(self, request: str, path: str, data: bytes | None) -> dict[str, Any]:
        key = hashlib.blake2b(digest_size=16)
        for part in (__version__, self._settings, request):
            key.update(f"{len(part)} {part}".encode())
        key.update(data or b"")
        known = self._checkpoint.get([key.digest()])
        if known:
            ((kept,),) = known.values()
            return dict(json.loads(zlib.decompress(kept)))
        text = self._on_a_node(request, path, data)
        answer = dict(json.loads(text))
        if "documents" in answer:  # what failed is tried again by the next sync
            self._checkpoint.put([(key.digest(), zlib.compress(text.encode(), 1))])
        return answer

    def _on_a_node(self, request: str, path: str, data: bytes | None) -> str:
        """Prepares on a node; if the cluster lost the task for good, on this machine."""
        with self._calls:
            self._check_ended()
            self._waiting_calls += 1
        try:
            return self._awaited(self._task(self._settings, request, path, data))
        except self._ray.exceptions.RayError:
            return prepared_here(self._settings, request, path, data)
        finally:
            with self._calls:
                self._waiting_calls -= 1
                self._calls.notify_all()

    def _awaited(self, result: Any) -> str:
        """Waits for a task, as long as the sync goes on."""
        while True:
            try:
                return str(self._ray.get(result, timeout=_LOOK_UP))
            except self._ray.exceptions.GetTimeoutError:
                self._check_ended()

    def _check_ended(self) -> None:
        if self._ended:
            raise SourceError("was not read: the sync has ended")
