"""One writer at a time, by a lock on a file. The system drops the lock when its holder dies, however it dies."""

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


@contextlib.contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "writer.lock"
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(f"{_holder(path)} is writing to {folder}. Wait until it ends, or stop it.") from None
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
