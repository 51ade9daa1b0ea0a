"""Decides whether the earlier version of a changed file that cannot be read stays searchable."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from surefind.base.errors import SourceError
from surefind.engine.files.access_head import may_restrict
from surefind.engine.files.opening import read_bytes
from surefind.engine.files.scan import FileEntry
from surefind.engine.store.rows import FileRow, ProblemRow
from surefind.engine.store.versions import Versions

KEPT_NOTE = "; the version indexed before is kept"
_WITHDRAWN = "; the version indexed before was withdrawn, because the new one may restrict who reads it"
_MAX_SEARCHED_BYTES = 100_000_000
"""Bytes of a file up to which it is searched for an access list."""


def withdraw(versions: Versions, entry: FileEntry, row: FileRow | None, contents: int) -> bool:
    """Removes the earlier version of a file that could not be read from the set `contents`, if the new one may restrict
    its readers. Returns whether it did."""
    if row is None or not _may_restrict(entry, row):
        return False
    versions.release(row.rows, contents)
    return True


def _may_restrict(entry: FileEntry, row: FileRow) -> bool:
    """Returns whether a file has changed and may contain an access list. If it cannot even be opened, nothing is known
    about it, and its earlier version stays."""
    if entry.size > _MAX_SEARCHED_BYTES:
        return True
    try:
        data = read_bytes(entry.path, entry.real, _MAX_SEARCHED_BYTES / 1e6)
    except SourceError:  # it grew, or is no longer a file: it may restrict its readers
        return True
    except OSError:
        return False
    return hashlib.sha256(data).hexdigest() != row.sha256 and may_restrict(data)


def withdrawn(failure: ProblemRow) -> ProblemRow:
    """Returns the failure with the reason for the withdrawal."""
    return replace(failure, reason=failure.reason.removesuffix(KEPT_NOTE) + _WITHDRAWN)
