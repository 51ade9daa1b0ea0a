"""File locks that allow one writer per knowledge base, and one training per model name.

The operating system releases a lock when its holder dies, for whatever reason.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from surefind.errors import LockedError


def writer_lock(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Holds the writer's lock. Raises `LockedError` if another process has it."""
    return _held(folder / "writer.lock", f"is writing to {folder}. Wait until it ends, or stop it.")


def training_lock(data: Path, name: str) -> contextlib.AbstractContextManager[None]:
    """Holds the lock of a model name. Two trainings under one name would write into one folder."""
    doing = f"is training {name!r}. Wait until it ends, stop it, or train under another --name."
    return _held(data / "locks" / f"train-{name}.lock", doing)


@contextlib.contextmanager
def _held(path: Path, doing: str) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(f"{_holder(path)} {doing}") from None
        file.truncate(0)
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200]
        json.dump({"pid": os.getpid(), "command": command, "since": time.strftime("%H:%M:%S")}, file)
        file.flush()
        yield


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f"Process {holder['pid']} ({holder['command']}, since {holder['since']})"
    except (OSError, ValueError, KeyError):
        return "Another process"
