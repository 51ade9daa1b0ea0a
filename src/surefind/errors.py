"""Every error Surefind raises on purpose.

    SurefindError
    ├── UsageError                 the call is wrong; the message says what to write instead   (exit 2)
    │   ├── SpecError              a stage spec: unknown stage or parameter, bad value
    │   ├── ConfigError            surefind.toml: names file, line and choices
    │   ├── QueryError             an empty or oversized query, k out of range
    │   ├── SourceError            a folder or file that cannot be synced
    │   └── ExamError              an exam that cannot be read, written or found
    ├── StoreError                 the knowledge base on disk                                   (exit 3)
    │   ├── NothingIndexedError    there is no knowledge base here yet, or it is empty
    │   ├── LockedError            another process is writing
    │   ├── NewerStoreError        written by a newer version of Surefind
    │   ├── OlderStoreError        written by an older one; a sync brings it up to date
    │   ├── NotBuiltError          an index that a search needs is not there; says how to build it
    │   ├── CorruptIndexError      a checksum does not match
    │   └── DiskFullError          no room left; nothing was lost
    ├── RefusedError               a server answered a request with an error; has its status
    ├── AnswerError                a language model's answer cannot be used
    ├── BudgetError                the money that may be spent is spent; what was paid for is kept
    └── MissingPartError           an optional package or model is not installed                (exit 4)

A message is one sentence that names the bad value, and one that gives the way out.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

_ROOM = 1 << 16
"""Bytes that SQLite needs beside a database to open it."""


class SurefindError(Exception):
    """Base of every error that Surefind raises on purpose. The command line exits with its `exit_code`."""

    exit_code = 1


class UsageError(SurefindError):
    exit_code = 2


class SpecError(UsageError):
    pass


class ConfigError(UsageError):
    pass


class QueryError(UsageError):
    pass


class SourceError(UsageError):
    pass


class ExamError(UsageError):
    pass


class StoreError(SurefindError):
    exit_code = 3


class NothingIndexedError(StoreError):
    pass


class LockedError(StoreError):
    pass


class NewerStoreError(StoreError):
    pass


class OlderStoreError(StoreError):
    pass


class NotBuiltError(StoreError):
    pass


class CorruptIndexError(StoreError):
    pass


class DiskFullError(StoreError):
    pass


class RefusedError(SurefindError):
    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class AnswerError(SurefindError):
    pass


class BudgetError(SurefindError):
    pass


class MissingPartError(SurefindError):
    exit_code = 4


def is_full(error: Exception, folder: Path | None = None) -> bool:
    """Whether the disk, or SQLite on it, had no room left. SQLite does not always say so: a catalogue on a full disk,
    which is `folder`'s, has an "I/O error" when it is only read."""
    if "disk I/O error" in str(error) and folder is not None:
        import shutil  # this module is imported by every command

        return shutil.disk_usage(folder).free < _ROOM
    return getattr(error, "errno", None) == errno.ENOSPC or "disk is full" in str(error)


def closest(wrong: str, known: Iterable[str]) -> str:
    """The name that was probably meant; empty if none is near. Capitals and hyphens are no difference: people write
    `RRF` and `cross-encoder`."""
    names = {_plain(name): name for name in sorted(known)}
    close = get_close_matches(_plain(wrong), names, n=1)
    return names[close[0]] if close else ""


def choices(wrong: str, known: Iterable[str], meant: str = "") -> str:
    """The end of an error message: the likely meaning (`meant`, or the closest name), then all there is."""
    names = sorted(known)
    meant = meant or closest(wrong, names)
    hint = f"did you mean {meant!r}? " if meant else ""
    return f"{hint}Choices: {', '.join(names) or 'none'}."


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
