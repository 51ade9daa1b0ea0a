"""Every error that Surefind raises on purpose.

    SurefindError
    ├── UsageError                 the call is wrong; the message says what to write instead   (exit 2)
    │   ├── SpecError              a stage spec is wrong: unknown stage or parameter, bad value
    │   ├── ConfigError            surefind.toml is wrong; the message names file, line and choices
    │   ├── QueryError             the query is empty or too long, or k is out of range
    │   ├── SourceError            a folder or file cannot be synced
    │   ├── ConflictError          somebody else changed it meanwhile; nothing was overwritten
    │   ├── NotFoundError          there is no such passage or document, or the caller may not read it
    │   ├── ExamError              an exam cannot be read, written or found
    │   └── ReportVersionError     a report was written by another version of Surefind, or by another program
    ├── StoreError                 something is wrong with the knowledge base on disk           (exit 3)
    │   ├── NothingIndexedError    there is no knowledge base here yet, or it is empty
    │   ├── LockedError            another process is writing
    │   ├── NewerStoreError        the store was written by a newer version of Surefind
    │   ├── PassageError           a passage is not in this generation, or the caller may not read it
    │   ├── NotBuiltError          an index that a search needs does not exist; the message says how to build it
    │   ├── CorruptIndexError      the checksum of an index or a model does not match
    │   ├── ClosedError            the knowledge base was closed by this program
    │   ├── DamagedError           the catalogue or the file of drafts is damaged; the message says how to recover
    │   ├── DiskFullError          the disk is full; nothing was lost
    │   └── DeniedError            this user may not write there, or the disk is read-only; nothing was lost
    ├── ForbiddenError             the caller is known and may not do this
    ├── RefusedError               a server answered a request with an error; `status` is its HTTP status
    ├── AnswerError                a language model's answer cannot be used
    ├── BudgetError                the budget is spent; answers already paid for are kept
    ├── GateError                  the gate did not let a new generation be published
    └── MissingPartError           an optional package or model is not installed                (exit 4)

A message names the bad value in its first sentence and says what to do in the next.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path

from surefind.base.redact import redacted

_SHORT_WRITE = re.compile(r"\d requested and \d++ written")
"""What numpy says, without an error number, if the disk takes only a part of an array."""
_SQLITE_FREE_BYTES = 1 << 16
"""Free bytes that SQLite needs on the disk to open a database."""


class SurefindError(Exception):
    """Base of every error that Surefind raises on purpose. The command line exits with its `exit_code`. Messages are
    shown and stored, so secrets in URLs are removed from them."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(redacted(message))


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


class ConflictError(UsageError):
    def __init__(self, message: str, newer: int = 0, refused: bytes = b"") -> None:
        """`newer` is the revision that is newer than the one that was changed, and `refused` is the file that was not
        saved."""
        super().__init__(message)
        self.newer = newer
        self.refused = refused


class NotFoundError(UsageError):
    pass


class ExamError(UsageError):
    pass


class ReportVersionError(UsageError):
    pass


class StoreError(SurefindError):
    exit_code = 3


class NothingIndexedError(StoreError):
    pass


class LockedError(StoreError):
    pass


class NewerStoreError(StoreError):
    pass


class PassageError(StoreError):
    pass


class NotBuiltError(StoreError):
    pass


REPAIR = "Run surefind doctor, which removes a damaged index, and then surefind sync, which makes it again."
"""What to do about a `CorruptIndexError`."""


class CorruptIndexError(StoreError):
    pass


class ClosedError(StoreError):
    pass


class DamagedError(StoreError):
    def __init__(self, message: str, what: str = "") -> None:
        super().__init__(message)
        self.what = redacted(what)


class DiskFullError(StoreError):
    pass


class DeniedError(StoreError):
    pass


class ForbiddenError(SurefindError):
    pass


class RefusedError(SurefindError):
    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class AnswerError(SurefindError):
    pass


class BudgetError(SurefindError):
    pass


class GateError(SurefindError):
    pass


class MissingPartError(SurefindError):
    exit_code = 4


def is_full(error: Exception, folder: Path | None = None) -> bool:
    """Whether the error means that the disk is full. SQLite does not always say so: even reading a catalogue on a full
    disk gives "disk I/O error", so then the free space on the disk of `folder` is checked."""
    if "disk I/O error" in str(error) and folder is not None:
        import shutil  # here, because every command imports this module

        return shutil.disk_usage(folder).free < _SQLITE_FREE_BYTES
    full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "disk is full" in str(error)
    return full or bool(_SHORT_WRITE.search(str(error)))


def is_denied(error: Exception, folder: Path | None = None) -> bool:
    """Whether the error means that this user may not write there: wrong permissions, or a read-only disk. When the
    kernel makes a disk read-only while a file is open, SQLite says "disk I/O error", as for a damaged file; so then it
    is tried whether `folder` can be written to."""
    if "disk I/O error" in str(error) and folder is not None:
        import tempfile  # here, because every command imports this module

        try:
            with tempfile.TemporaryFile(dir=folder):
                return False
        except OSError as tried:
            return is_denied(tried)
    denied = getattr(error, "errno", None) in (errno.EACCES, errno.EPERM, errno.EROFS)
    return denied or "readonly database" in str(error)


def denied_message(error: Exception, folder: Path | None = None) -> str:
    """What to tell a user who may not write there."""
    where = getattr(error, "filename", None) or folder or "A file"
    reason = getattr(error, "strerror", None) or str(error)
    return (
        f"{where} cannot be written or read ({reason}). Nothing is lost. Change its permissions, or copy the knowledge "
        "base to a folder that you may write to."
    )


def closest(wrong: str, known: Iterable[str]) -> str:
    """Returns the known name that was probably meant, or an empty string if none is similar. Ignores case and treats
    hyphens as underscores, because people write `RRF` and `cross-encoder`."""
    names, plain = {_plain(name): name for name in sorted(known)}, _plain(wrong)
    close = get_close_matches(plain, names, n=5)
    # Of names that are equally close, the one with the same letters is meant: rrf for rff, not rsf.
    best = max(close, key=lambda one: (SequenceMatcher(None, one, plain).ratio(), set(one) == set(plain)), default="")
    return names[best] if best else ""


def choices(wrong: str, known: Iterable[str], meant: str = "") -> str:
    """Returns the end of an error message: a suggestion (`meant`, or the closest name) and the list of all choices."""
    names = sorted(known)
    meant = meant or closest(wrong, names)
    hint = f"Did you mean {meant}? " if meant else ""
    return f"{hint}Choices: {', '.join(names) or 'none'}."


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
