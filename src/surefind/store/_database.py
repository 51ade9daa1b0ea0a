"""Opens the catalogue. One connection writes. Each thread that reads has its own read-only connection, so that no
thread waits for another."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path

from surefind.disk.folders import private_folder
from surefind.errors import StoreError
from surefind.store._schema import FORMAT
from surefind.store.checked import CheckedRows, open_to_write, unreadable
from surefind.store.connection import Connection, ConnectionPool, Lent, closed, connect_to_read, version
from surefind.store.failures import damaged, explained
from surefind.store.lock import nothing_yet


class CatalogueRows(CheckedRows):
    """The connections to one catalogue: one that writes, or a read-only one for each thread."""

    def __init__(self, path: Path, readonly: bool = False) -> None:
        super().__init__(None, FORMAT.tables, partial(damaged, path.parent))
        self.path = path
        self._reading = ConnectionPool(path, _open_to_read) if readonly else None
        self._writing = None if readonly else Lent(open_catalogue(path), path.parent)

    @property
    def db(self) -> sqlite3.Connection:
        """The connection of this thread, or the one that writes. Raises `ClosedError` after `close`."""
        if self._reading is not None:
            return self._reading.get()
        lent = self._writing
        if lent is None:
            raise closed(self.path.parent)
        return lent.connection

    def close(self) -> None:
        if self._reading is not None:
            self._reading.close()
        self._writing = None  # a thread that uses it holds it, and it is closed when nobody does


def open_catalogue(path: Path) -> Connection:
    """Opens the catalogue for writing, after creating it if there is none."""
    private_folder(path.parent)
    try:
        return open_to_write(path, FORMAT, path.parent)
    except sqlite3.DatabaseError as error:
        raise explained(error, path.parent) from error


def _open_to_read(path: Path) -> Connection:
    """Opens the catalogue read-only, for one thread."""
    try:
        db = connect_to_read(path)
        if (stored := version(db)) == FORMAT.version:
            return db
        begun = bool(db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    except sqlite3.DatabaseError as error:
        raise explained(error, path.parent) from error
    db.close()
    raise _unusable(path.parent, stored, begun)


def _unusable(folder: Path, stored: int, begun: bool) -> StoreError:
    """Why a catalogue of another format cannot be read. One without tables was not finished: a first sync was killed,
    or is still running."""
    if not stored and not begun:
        return nothing_yet(folder, "There is no knowledge base here yet: the first sync did not finish.")
    return unreadable(folder, stored, FORMAT.version)
