"""Re-raises disk and SQLite errors with advice on how to recover."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from surefind.base.errors import (
    DamagedError,
    DeniedError,
    DiskFullError,
    LockedError,
    StoreError,
    denied_message,
    is_denied,
    is_full,
)


@contextlib.contextmanager
def explaining(data: Path) -> Iterator[None]:
    """Explains the disk and SQLite errors of the `with` block, which works on the data folder `data`."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise explained(error, data) from error


def explained(
    error: OSError | sqlite3.Error, data: Path, damage: Callable[[str], StoreError] | None = None, what: str = ""
) -> Exception:
    """Returns the error to raise instead of an error of the disk or of SQLite. For another file than the catalogue,
    `damage` makes the error for damage, and `what` names the file."""
    if is_full(error, data):
        return DiskFullError(
            f"The disk that holds {data} is full. Everything indexed before is intact. "
            "Free some space and run the command again; it continues where it stopped."
        )
    if is_denied(error, data) or _cannot_open(error):
        return DeniedError(denied_message(error, data))
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return LockedError(f"{what or f'The catalogue in {data}'} is in use by another program ({error}). Try again.")
    if isinstance(error, sqlite3.DatabaseError):
        undecodable = "Could not decode" in str(error)  # SQLite's message quotes the text, which may be restricted
        return (damage or partial(damaged, data))("a text is not UTF-8" if undecodable else str(error))
    return error


def damaged(data: Path, what: str) -> DamagedError:
    """Returns the error for a damaged catalogue, with the ways out."""
    return DamagedError(
        f"The catalogue in {data} is damaged: {what}. Restore {data} from a backup, or move the files catalogue.db* "
        "out of it and sync your folders again: exams, reports, models, drafts and cached vectors are kept. "
        "Retirements, published drafts and earlier versions of documents are only in the catalogue.",
        what,
    )


def _cannot_open(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and "unable to open database file" in str(error)
