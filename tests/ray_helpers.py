"""A real Ray cluster of two nodes on this machine, and tasks that say where they ran."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from surefind.engine.write.cluster import prepared_here

LOG = "SUREFIND_TEST_RAY_LOG"
"""The file to which tasks write the node and the file that they prepared."""
_TRIES, _PATIENCE = 4, 120.0
"""How often a node is started, and how many seconds it may take."""
_STORE = 80_000_000
"""Bytes of a node's object store; the smallest that Ray accepts is 75 MB."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Cluster:
    """Two nodes with one CPU each, as two machines would be: each has its own raylet, object store and workers."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "tasks.log"
        self.log.touch()
        self._folder = folder
        self._started = 0
        self.address = ""
        self.head = self._tried(self._head)
        self.second = self.add_node()

    def _head(self) -> subprocess.Popen[bytes]:
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        return self._start("--head", f"--port={port}", "--include-dashboard=false")

    def add_node(self) -> subprocess.Popen[bytes]:
        return self._tried(lambda: self._start(f"--address={self.address}"))

    def _tried(self, start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        """Starts a node. Ray gives up after some seconds, and on a busy machine a second try helps."""
        for _ in range(_TRIES):
            node = start()
            if self._runs(node):
                return node
            kill(node)
        raise TimeoutError(f"A Ray node did not start: {self._output().read_text()[-2000:]}")

    def _runs(self, node: subprocess.Popen[bytes]) -> bool:
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until and node.poll() is None:
            if "Ray runtime started" in self._output().read_text():
                return True
            time.sleep(0.2)
        return False

    def _output(self) -> Path:
        """What the node that was started last printed."""
        return self._folder / f"ray-{self._started}.log"

    def _start(self, *options: str) -> subprocess.Popen[bytes]:
        paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH", "")])]
        environment = {
            **os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": os.pathsep.join(paths), LOG: str(self.log)
        }  # fmt: skip
        command = [
            sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1", "--disable-usage-stats",
            f"--object-store-memory={_STORE}", "--node-ip-address=127.0.0.1", *options,
        ]  # fmt: skip
        self._started += 1
        with self._output().open("wb") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    def tasks(self) -> list[tuple[str, str]]:
        """Returns the node's process, and the file, of every task that began."""
        return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in self.log.read_text().splitlines()]

    def end(self) -> None:
        for node in (self.second, self.head):
            kill(node)


def kill(node: subprocess.Popen[bytes]) -> None:
    """Kills a node and everything that it started, at once, as a power cut does."""
    with suppress(ProcessLookupError):
        os.killpg(node.pid, signal.SIGKILL)
    node.wait()


def logged(settings: str, request: str, path: str, data: bytes | None) -> str:
    """Does what the task of a sync does, slowly, and says where."""
    with Path(os.environ[LOG]).open("a") as log:
        log.write(f"{os.getpgid(os.getppid())} {path}\n")  # the parent of a worker is its node's raylet
    time.sleep(0.05)
    return prepared_here(settings, request, path, data)
