"""Re-raises disk and SQLite errors with advice on how to recover."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from surefind.errors import DiskFullError, StoreError, denied_message, is_denied, is_full


@contextlib.contextmanager
def explaining(data: Path) -> Iterator[None]:
    """Explains the disk and SQLite errors of the `with` block, which works on the data folder `data`."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise _explained(error, data) from error


def _explained(error: OSError | sqlite3.Error, data: Path) -> Exception:
    if is_full(error, data):
        return DiskFullError(
            f"The disk that holds {data} is full. Everything indexed before is intact. "
            "Free some space and run the command again; it continues where it stopped."
        )
    if is_denied(error):
        return StoreError(denied_message(error, data))
    if isinstance(error, sqlite3.DatabaseError):
        return StoreError(f"The catalogue in {data} is damaged ({error}). Move {data} away and sync again.")
    return error
