"""Leases: a reader holds the generation that it reads, so that no writer, in any process, sweeps it away.

A lease is a shared lock on a file named after the generation. A writer that wants to sweep tries for the exclusive lock
and goes without where it does not get it. The system drops a lock when its holder dies, however it dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

_FOLDER = "readers"


class Lease:
    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def take(data: Path, generation: int) -> Lease | None:
    """Hold a generation; None if a writer is sweeping it at this moment. On a disk that cannot be written to, where
    nobody sweeps, nothing is held."""
    path = data / _FOLDER / str(generation)
    try:
        path.parent.mkdir(exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return Lease(None)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:  # a file system without locks
        os.close(descriptor)
        return Lease(None)
    return Lease(descriptor)


@contextlib.contextmanager
def sweeping(data: Path, generation: int) -> Iterator[bool]:
    """Whether nobody reads a generation; while the context lasts, nobody begins to."""
    path = data / _FOLDER / str(generation)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
        path.unlink(missing_ok=True)  # before the lock is dropped: whoever waits for it finds the generation gone
    finally:
        os.close(descriptor)
