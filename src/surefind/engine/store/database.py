"""The tables of the catalogue, and the connections to it. One connection writes. Threads that read borrow a read-only
connection for each statement, so that none waits for another.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from surefind.base.disk.folders import private_folder
from surefind.base.errors import StoreError
from surefind.engine.store.connection import (
    Connection,
    ConnectionPool,
    Format,
    closed,
    connect_to_read,
    damaged,
    explained,
    open_to_write,
    unreadable,
    version,
)
from surefind.engine.store.lock import nothing_yet

CHUNK = ("layout", "version", "seq", "id", "start", "end", "headings", "context", "parent_start", "parent_end")
"""The columns of `chunks`, before their checksum."""
VERSION = (
    "row", "id", "source", "path", "size", "mtime_ns", "seen_ns", "sha256", "reader", "content", "title", "format",
    "metadata", "acl", "places", "length", "state", "author", "created",
)  # fmt: skip
"""The columns of `versions`, before their digest."""
DIGESTED = ("id", "source", "path", "content", "title", "format", "metadata", "acl", "places", "length")
"""The columns that the digest of a version is of. `source` and `path` are among them, since path rules decide who may
read a document."""
NEVER = 2**62
"""The value of `members.removed` for a version that has not been removed."""
BLOCK = 16_384
"""Characters of a document's text per row, so that a passage of a long document is read without the rest of it."""
BLOCK_BITS = 20
"""The bits of a block's number in its key: the key is (version << BLOCK_BITS) + number."""

_STATEMENTS = (
    """CREATE TABLE sources (
    id INTEGER PRIMARY KEY AUTOINCREMENT, root TEXT UNIQUE, name TEXT, origin TEXT DEFAULT '',
    revision TEXT DEFAULT '')""",
    """CREATE TABLE versions (
    row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, source INTEGER, path TEXT, size INTEGER, mtime_ns INTEGER,
    seen_ns INTEGER, sha256 TEXT, reader TEXT DEFAULT '', content TEXT, title TEXT, format TEXT, metadata TEXT,
    acl TEXT, places TEXT DEFAULT '[]', length INTEGER, state TEXT DEFAULT 'published', author TEXT DEFAULT '',
    created TEXT DEFAULT '', digest INTEGER)""",
    "CREATE INDEX versions_by_id ON versions (id)",
    "CREATE TABLE texts (place INTEGER PRIMARY KEY, text TEXT, checksum INTEGER)",
    f"""CREATE TABLE members (
    version INTEGER, added INTEGER, removed INTEGER DEFAULT {NEVER}, PRIMARY KEY (version, added)) WITHOUT ROWID""",
    "CREATE TABLE layouts (id INTEGER PRIMARY KEY, spec TEXT UNIQUE)",
    """CREATE TABLE chunked (
    layout INTEGER, version INTEGER, digest INTEGER, PRIMARY KEY (layout, version)) WITHOUT ROWID""",
    """CREATE TABLE chunks (
    layout INTEGER, version INTEGER, seq INTEGER, id INTEGER, start INTEGER, end INTEGER, headings TEXT, context TEXT,
    parent_start INTEGER, parent_end INTEGER, checksum INTEGER, PRIMARY KEY (layout, version, seq)) WITHOUT ROWID""",
    """CREATE TABLE problems (
    source INTEGER, path TEXT, reason TEXT, file TEXT, size INTEGER DEFAULT -1, mtime_ns INTEGER DEFAULT 0,
    seen_ns INTEGER DEFAULT 0, reader TEXT DEFAULT '', PRIMARY KEY (source, path))""",
    """CREATE TABLE generations (
    number INTEGER PRIMARY KEY, created TEXT, documents INTEGER, contents INTEGER, author TEXT DEFAULT '',
    reason TEXT DEFAULT '', digest INTEGER DEFAULT 0)""",
    """CREATE TABLE indexes (
    key TEXT, contents INTEGER, layout TEXT, spec TEXT, PRIMARY KEY (key, contents)) WITHOUT ROWID""",
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID",
    "INSERT INTO counters VALUES ('catalogue', abs(random())), ('contents', 0)",
)
FORMAT = Format(7, _STATEMENTS)
"""The format of the catalogue."""


class CatalogueFile:
    """The connection of a writer to the catalogue, or read-only ones, which threads share."""

    def __init__(self, path: Path, readonly: bool = False) -> None:
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
    def at_once(self) -> Iterator[sqlite3.Connection]:
        """Yields a connection to a reader. What is read within the block is of one moment."""
        assert self._reading is not None
        with self._reading.connection() as db:
            db.execute("BEGIN")
            yield db

    def counter(self, name: str) -> int:
        """Returns the value of a counter: `catalogue` is the number of this catalogue, which no other one has, and
        `contents` that of the newest set of documents ever committed."""
        row = self.db.execute("SELECT value FROM counters WHERE name = ?", (name,)).fetchone()
        if row is None or type(row[0]) is not int:
            raise self.damaged(f"the counter {name} is missing")
        return int(row[0])

    def damaged(self, what: str) -> StoreError:
        """Returns the error for damage in the catalogue."""
        return damaged(self.path.parent, what)

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
