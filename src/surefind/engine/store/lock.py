"""File locks that allow one writer per knowledge base, one training per model name, and one session per growing exam.

The operating system releases a lock when its holder dies, for whatever reason.

Leases: a reader holds a lease on its generation, so that no writer, in any process, deletes it.

A lease is a shared lock on a file named after the generation. A writer that wants to delete a generation tries to get
the exclusive lock, and keeps the generation if it does not. The operating system releases a lock when its holder dies,
for whatever reason.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self, TextIO, TypeVar

from surefind.base.disk.sealed import private_folder
from surefind.base.errors import LockedError, NothingIndexedError
from surefind.base.protocols import OnProgress
from surefind.base.redact import redacted
from surefind.base.running import TimeLeft

T = TypeVar("T")
VECTORS_LOCK = Path("locks", "vectors.lock")


class Progress(NamedTuple):
    """How far a kind of work is, and about how many seconds are left; None at its beginning."""

    what: str
    done: int
    total: int
    seconds_left: float | None = None


_NOTE_SECONDS = 1.0
"""The least time between two notes of progress in the lock file."""
_AGAIN_SECONDS = 0.05
"""The time to wait before a second attempt: a reader that checks for a writer holds the lock for less than this."""


def writer_lock(folder: Path) -> contextlib.AbstractContextManager[OnProgress]:
    """Holds the writer's lock. Raises `LockedError` if another process has it.

    Yields a callback for the writer's progress, which is shown to whoever waits for the lock."""
    return _held(folder / "writer.lock", f"is writing to {folder}. Wait until it ends, or stop it.")


def patiently(do: Callable[[], T], seconds: float) -> T:
    """Does something as soon as no other process writes; raises `LockedError` if that takes longer than this."""
    ends = time.monotonic() + seconds
    while True:
        try:
            return do()
        except LockedError:
            if time.monotonic() > ends:
                raise
        time.sleep(2 * _AGAIN_SECONDS)


def nothing_yet(
    folder: Path, message: str, advice: str = "Make one with: surefind sync FOLDER."
) -> NothingIndexedError:
    """Returns the error for a missing generation: that the first sync is still running, or else `message`, and what to
    do."""
    writer = _writer(folder / "writer.lock")
    if writer is None:
        return NothingIndexedError(f"{message} {advice}")
    details = [f"process {writer['pid']}, since {writer['since']}"] if "pid" in writer else []
    if progress := writer.get("progress"):
        details.append(f"{progress[0]}: {progress[1]:,} of {progress[2]:,}")
    shown = f" ({'; '.join(details)})" if details else ""
    return NothingIndexedError(
        f"The first sync is still running{shown}. There is nothing to search before the documents are read: try again "
        "then."
    )


def merging_lock(data: Path) -> contextlib.AbstractContextManager[OnProgress]:
    """Holds the lock of a merge of the parts of indexes. Writers do not wait for it."""
    doing = f"is merging the parts of the indexes in {data}. Wait until it ends, or stop it."
    return _held(data / "locks" / "merge.lock", doing)


def vectors_lock(data: Path) -> contextlib.AbstractContextManager[OnProgress]:
    """Holds the lock of computing vectors ahead. Writers do not wait for it."""
    return _held(data / VECTORS_LOCK, f"is computing the vectors of {data.parent}. Wait until it ends, or stop it.")


def vectors_progress(data: Path) -> Progress | None:
    """Returns how far the computing of vectors is; None if nobody computes any, or they have just begun."""
    about = _writer(data / VECTORS_LOCK)
    return Progress(*about["progress"]) if about and about.get("progress") else None


def training_lock(data: Path, name: str) -> contextlib.AbstractContextManager[OnProgress]:
    """Holds the lock of a model name. Two trainings under one name would write into one folder."""
    doing = f"is training {name!r}. Wait until it ends, stop it, or train under another --name."
    return _held(data / "locks" / f"train-{name}.lock", doing)


def growing_lock(data: Path, name: str) -> contextlib.AbstractContextManager[OnProgress]:
    """Holds the lock of a growing exam. Two sessions would each save a version without the answers of the other."""
    doing = f"is growing the exam {name!r}. Wait until it ends, or stop it."
    return _held(data / "locks" / f"grow-{name}.lock", doing)


@contextlib.contextmanager
def keys_lock(data: Path) -> Iterator[None]:
    """Waits for the lock of the API keys, and holds it."""
    private_folder(data / "locks")
    with (data / "locks" / "keys.lock").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _held(path: Path, doing: str) -> Iterator[OnProgress]:
    private_folder(path.parent)
    with path.open("a+", encoding="utf-8") as file:
        if not (_lock(file) or _lock_again(file)):
            raise LockedError(f"{_holder(path)} {doing}")
        command = redacted(" ".join([Path(sys.argv[0]).name, *sys.argv[1:]]))[:200]
        about = {"pid": os.getpid(), "command": command, "since": time.strftime("%H:%M:%S")}
        _note(file, about)
        turn, noted = threading.Lock(), float("-inf")
        left = TimeLeft()

        def note(what: str, done: int, total: int) -> None:
            nonlocal noted
            seconds = left.after(what, done, total)
            if time.monotonic() - noted < _NOTE_SECONDS:
                return
            with turn, contextlib.suppress(OSError):  # if the disk is full, writing the data itself raises the error
                noted = time.monotonic()
                _note(file, {**about, "progress": Progress(what, done, total, seconds)})

        yield note


def _lock(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_again(file: TextIO) -> bool:
    time.sleep(_AGAIN_SECONDS)
    return _lock(file)


def _note(file: TextIO, about: dict[str, Any]) -> None:
    """Replaces the content of the lock file by a description of its holder."""
    file.truncate(0)
    json.dump(about, file)
    file.flush()


def _writer(path: Path) -> dict[str, Any] | None:
    """Returns the description of a lock's holder, empty if it cannot be read; None if nobody holds the lock."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _about(path)
    except OSError:  # there was never a writer
        pass
    return None


def _about(path: Path) -> dict[str, Any]:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        return about if {"pid", "command", "since"} <= about.keys() else {}
    except (OSError, ValueError, AttributeError):  # the holder is writing it at this moment
        return {}


def _holder(path: Path) -> str:
    about = _about(path)
    return f"Process {about['pid']} ({about['command']}, since {about['since']})" if about else "Another process"


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
