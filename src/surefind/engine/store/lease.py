"""Leases: a reader holds a lease on its generation, so that no writer, in any process, deletes it.

A lease is a shared lock on a file named after the generation. A writer that wants to delete a generation tries to get
the exclusive lock, and keeps the generation if it does not. The operating system releases a lock when its holder dies,
for whatever reason.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Self

_FOLDER = "readers"


class Lease:
    """A held lease; without a descriptor, a lease that holds nothing."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def release(self) -> None:
        """Gives the lease back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def take(data: Path, generation: int) -> Lease | None:
    """Takes a lease on a generation. Returns None if a writer is deleting it at this moment. On a read-only disk, on
    which nobody can delete it, the lease holds nothing."""
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
    """Yields whether no reader holds a generation. If so, no reader can take a lease on it within the context."""
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
        path.unlink(missing_ok=True)  # before the lock is released: the next reader to get it finds the generation gone
    finally:
        os.close(descriptor)
