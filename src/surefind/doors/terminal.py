"""Keeps control characters of documents, file names and queries off the terminal.

An escape sequence in a title could clear the screen, change the window's title, or show text that is not there; marks
for right-to-left text could turn a file name around. Everything that the program prints passes a `CleanStream`. Only a
`Screen`, which draws colours and progress bars, writes past it: it cleans the texts that it is given instead.

How a process of ours ends when something fails: with a message and an exit code, or at once.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, cast

from surefind.base.errors import DeniedError, DiskFullError, StoreError, denied_message, is_denied, is_full
from surefind.base.running import still_working

if TYPE_CHECKING:
    from rich.console import Console

_UNSAFE = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Control characters except tab and line end, and the marks that change the direction of text."""
_CONTROL = re.compile(f"[{_UNSAFE}]")
_UNENCODABLE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Removes control characters, and replaces characters that no encoding has."""
    return _UNENCODABLE.sub("\ufffd", _CONTROL.sub("", text))


def escaped(data: str) -> str:
    """Writes control characters in a JSON text as JSON escapes them. JSON itself asks for this up to U+001F only."""
    return re.sub(f"[{_UNSAFE}\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", data)


class CleanStream:
    """A text stream that writes cleaned text to another one."""

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        self.raw.write(clean(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # bytes would not be cleaned; typer looks for it where the encoding is ASCII
            raise AttributeError(name)
        return getattr(self.raw, name)


def clean_streams() -> None:
    """Makes the program's output pass a `CleanStream`, for the rest of the process."""
    sys.stdout, sys.stderr = _cleaned(sys.stdout), _cleaned(sys.stderr)


def _cleaned(stream: TextIO) -> TextIO:
    return stream if isinstance(stream, CleanStream) else cast(TextIO, CleanStream(stream))


def screen(stderr: bool, **settings: Any) -> Console:
    """Makes a console whose colours reach the terminal, while the texts that it prints are cleaned."""
    from rich.console import Console
    from rich.segment import Segment

    class Screen(Console):
        def render(self, *given: Any, **more: Any) -> Iterable[Segment]:
            for segment in super().render(*given, **more):
                safe = segment.control or not _CONTROL.search(segment.text)
                yield segment if safe else Segment(clean(segment.text), segment.style)

    stream = sys.stderr if stderr else sys.stdout
    return Screen(file=stream.raw if isinstance(stream, CleanStream) else stream, **settings)


INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as shells report it."""


def explained(error: OSError | sqlite3.Error) -> StoreError | None:
    """Turns an error of the disk into a message with advice; None for an error that is a defect of ours."""
    if is_full(error):
        return DiskFullError(
            f"The disk is full ({error}). Existing data is intact; free some space and run the command again."
        )
    if is_denied(error):
        return DeniedError(denied_message(error))
    if isinstance(error, OSError) and error.errno is not None:
        where = error.filename or "A file"
        return StoreError(f"{where} cannot be used ({error.strerror}). Check the disk, and run the command again.")
    if isinstance(error, sqlite3.DatabaseError):
        return StoreError(f"A file of the knowledge base is damaged ({error}). Find it with: surefind doctor.")
    return None


def leave() -> NoReturn:
    """Exits after Ctrl-C. If a call is still running, exits without clean-up, because clean-up would free the model
    that the running thread is using."""
    if still_working():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    sys.exit(INTERRUPTED)
