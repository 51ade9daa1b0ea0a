"""Opens the catalogue. One connection writes. Threads that read borrow a read-only connection for each statement, so
that none waits for another."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

from surefind.base.disk.folders import private_folder
from surefind.base.errors import StoreError
from surefind.engine.store._schema import FORMAT
from surefind.engine.store.checked import CheckedRows, open_to_write, unreadable
from surefind.engine.store.connection import Connection, ConnectionPool, closed, connect_to_read, version
from surefind.engine.store.failures import damaged, explained
from surefind.engine.store.lock import nothing_yet


class CatalogueRows(CheckedRows):
    """The connection of a writer to the catalogue, or read-only ones, which threads share."""

    def __init__(self, path: Path, readonly: bool = False) -> None:
        super().__init__(None, FORMAT.tables, partial(damaged, path.parent))
        self.path = path
        self._reading = ConnectionPool(path, _open_to_read) if readonly else None
        self._writing = None if readonly else open_catalogue(path)

    @property
    def db(self) -> sqlite3.Connection:
        """What executes statements. Raises `ClosedError` after `close`."""
        if self._reading is not None:
            return cast(sqlite3.Connection, self._reading)  # it has `execute`, which is all that readers need
        if self._writing is None:
            raise closed(self.path.parent)
        return self._writing

    @contextlib.contextmanager
    def at_once(self) -> Iterator[CheckedRows]:
        """Yields the rows to a reader. What is read within the block is of one moment."""
        assert self._reading is not None
        with self._reading.connection() as db:
            db.execute("BEGIN")
            yield CheckedRows(db, self.tables, self.damaged)

    def close(self) -> None:
        if self._reading is not None:
            self._reading.close()
        if self._writing is not None:
            self._writing.close()
            self._writing = None


def open_catalogue(path: Path) -> Connection:
    """Opens the catalogue for writing, after creating it if there is none."""
    private_folder(path.parent)
    try:
        return open_to_write(path, FORMAT, path.parent)
    except sqlite3.DatabaseError as error:
        raise explained(error, path.parent) from error


def _open_to_read(path: Path) -> Connection:
    """Opens the catalogue read-only."""
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
