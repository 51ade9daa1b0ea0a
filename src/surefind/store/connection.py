"""A connection to a SQLite file that may be damaged."""

from __future__ import annotations

import sqlite3
from typing import Any


class Connection(sqlite3.Connection):
    """Supports weak references, closes when the thread that held it has ended, and raises only errors of SQLite."""

    def execute(self, *given: Any) -> sqlite3.Cursor:
        try:
            return super().execute(*given)
        except UnicodeDecodeError:  # a message of SQLite that quotes damaged names
            raise sqlite3.DatabaseError("a name in the file is not UTF-8") from None

    def __del__(self) -> None:
        self.close()
