"""Notices a catalogue or a desk that is older than it should be: a file of a backup among newer ones, or a log of
SQLite that is damaged. SQLite ignores the rest of a log from the first damaged byte on.

Such a file is whole, so no checksum finds it. It counts the sessions that wrote to it, and a mark beside it has the
same number. The mark is written last, so the file is never behind it. If the mark is missing or damaged, only this
check is lost; the next writer writes it again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from surefind.base.disk.sealed import sealed, unsealed

NAME = "session.json"
"""The mark of the catalogue."""
_LENGTH = 120
"""Bytes of a mark, filled with blanks: it is written in place, and one write replaces all of it."""


@contextlib.contextmanager
def in_turn(mark: Path) -> Iterator[Callable[[int, int], None]]:
    """Waits until no other process writes the mark, and keeps them waiting: whoever commits first writes first. Yields
    what writes the numbers of the last session and of its catalogue. A mark that cannot be written is no error."""
    descriptor = -1
    try:
        with contextlib.suppress(OSError):
            descriptor = os.open(mark, os.O_WRONLY | os.O_CREAT, 0o666)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield partial(_record, descriptor)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _record(descriptor: int, session: int, catalogue: int) -> None:
    text = json.dumps(sealed({"catalogue": catalogue, "session": session})).ljust(_LENGTH)
    with contextlib.suppress(OSError):
        os.pwrite(descriptor, text.encode(), 0)
        os.ftruncate(descriptor, _LENGTH)


def recorded(mark: Path) -> tuple[int, int]:
    """Returns the numbers of the last session and of its catalogue; zeros if the mark is missing or damaged."""
    try:
        recorded_session = unsealed(json.loads(mark.read_bytes()))
        return int(recorded_session["session"]), int(recorded_session["catalogue"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0, 0
