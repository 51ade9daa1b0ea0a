"""Creates, opens and upgrades the tables of the catalogue.

One connection writes. Each thread that reads has its own read-only connection, so that no thread waits for another.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from surefind.errors import DiskFullError, NewerStoreError, OlderStoreError, StoreError, is_full
from surefind.folders import private_folder

VERSION = 4
"""The format of the catalogue, stored as SQLite's `user_version`."""
NEVER = 2**62
"""The value of `members.removed` for a version that has not been removed."""
BLOCK = 16_384
"""Characters of a document's text per row, so that a passage of a long document is read without the rest of it."""
BLOCK_BITS = 20
"""The bits of a block's number in its key: the key is (version << BLOCK_BITS) + number."""

_VERSIONS = """CREATE TABLE versions (
    row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, source INTEGER, path TEXT, size INTEGER, mtime_ns INTEGER,
    seen_ns INTEGER, sha256 TEXT, reader TEXT DEFAULT '', content TEXT, title TEXT, format TEXT, metadata TEXT,
    acl TEXT, places TEXT DEFAULT '[]', length INTEGER, state TEXT DEFAULT 'published', author TEXT DEFAULT '',
    created TEXT DEFAULT '')"""
_TEXTS = "CREATE TABLE texts (place INTEGER PRIMARY KEY, text TEXT)"
_MEMBERS = f"""CREATE TABLE members (
    version INTEGER, added INTEGER, removed INTEGER DEFAULT {NEVER}, PRIMARY KEY (version, added)) WITHOUT ROWID"""
_CHUNKS = """CREATE TABLE chunks (
    layout INTEGER, version INTEGER, seq INTEGER, id INTEGER, start INTEGER, end INTEGER, headings TEXT, context TEXT,
    parent_start INTEGER, parent_end INTEGER, PRIMARY KEY (layout, version, seq)) WITHOUT ROWID"""
_CHUNKED = "CREATE TABLE chunked (layout INTEGER, version INTEGER, PRIMARY KEY (layout, version)) WITHOUT ROWID"
_INDEXES = """CREATE TABLE indexes (
    key TEXT, contents INTEGER, layout TEXT, spec TEXT, PRIMARY KEY (key, contents)) WITHOUT ROWID"""
_COUNTERS = "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID"
_BY_ID = "CREATE INDEX versions_by_id ON versions (id)"

_SCHEMA: tuple[str, ...] = (
    """CREATE TABLE sources (
    id INTEGER PRIMARY KEY AUTOINCREMENT, root TEXT UNIQUE, name TEXT, origin TEXT DEFAULT '',
    revision TEXT DEFAULT '')""",
    _VERSIONS, _BY_ID, _TEXTS, _MEMBERS, _COUNTERS, "CREATE TABLE layouts (id INTEGER PRIMARY KEY, spec TEXT UNIQUE)",
    _CHUNKED, _CHUNKS,
    """CREATE TABLE problems (
    source INTEGER, path TEXT, reason TEXT, file TEXT, size INTEGER DEFAULT -1, mtime_ns INTEGER DEFAULT 0,
    seen_ns INTEGER DEFAULT 0, reader TEXT DEFAULT '', PRIMARY KEY (source, path))""",
    """CREATE TABLE generations (
    number INTEGER PRIMARY KEY, created TEXT, documents INTEGER, contents INTEGER, author TEXT DEFAULT '',
    reason TEXT DEFAULT '')""",
    _INDEXES,
)  # fmt: skip

UPGRADES: dict[int, tuple[str, ...]] = {
    1: ("ALTER TABLE chunks ADD COLUMN parent_start INTEGER", "ALTER TABLE chunks ADD COLUMN parent_end INTEGER"),
    2: (
        "ALTER TABLE sources ADD COLUMN origin TEXT DEFAULT ''",
        "ALTER TABLE sources ADD COLUMN revision TEXT DEFAULT ''",
        "ALTER TABLE documents ADD COLUMN places TEXT DEFAULT '[]'",
        "ALTER TABLE documents ADD COLUMN reader TEXT DEFAULT ''",
        "ALTER TABLE problems ADD COLUMN file TEXT",
        "ALTER TABLE problems ADD COLUMN size INTEGER DEFAULT -1",
        "ALTER TABLE problems ADD COLUMN mtime_ns INTEGER DEFAULT 0",
        "ALTER TABLE problems ADD COLUMN seen_ns INTEGER DEFAULT 0",
        "ALTER TABLE problems ADD COLUMN reader TEXT DEFAULT ''",
    ),
    # Chunks and indexes can be recomputed from the documents: the sync that upgrades makes them again, from cached
    # vectors and answers.
    3: (
        _VERSIONS, _BY_ID, _TEXTS, _MEMBERS, _COUNTERS,
        "INSERT INTO versions (row, id, source, path, size, mtime_ns, seen_ns, sha256, reader, content, title, format, "
        "metadata, acl, places, length) SELECT row, id, source, path, size, mtime_ns, seen_ns, sha256, reader, "
        "content, title, format, metadata, acl, places, length(text) FROM documents",
        "INSERT INTO members SELECT row, added, removed FROM documents",
        "WITH RECURSIVE blocks (row, number, left) AS ("
        f"SELECT row, 0, length(text) FROM documents UNION ALL SELECT row, number + 1, left - {BLOCK} FROM blocks "
        f"WHERE left > {BLOCK}) INSERT INTO texts SELECT (b.row << {BLOCK_BITS}) + b.number, "
        f"substr(d.text, b.number * {BLOCK} + 1, {BLOCK}) FROM blocks b JOIN documents d ON d.row = b.row",
        "DROP TABLE documents", "DROP TABLE chunks", "DROP TABLE chunked", "DROP TABLE indexes",
        _CHUNKS, _CHUNKED, _INDEXES,
        "ALTER TABLE generations ADD COLUMN contents INTEGER",
        "ALTER TABLE generations ADD COLUMN author TEXT DEFAULT ''",
        "ALTER TABLE generations ADD COLUMN reason TEXT DEFAULT ''",
        "UPDATE generations SET contents = number",
        "INSERT INTO counters SELECT 'contents', max(number) FROM generations",
    ),
}  # fmt: skip
"""The statements that upgrade a catalogue from each format to the next."""


class _Connection(sqlite3.Connection):
    """A connection that supports weak references and closes when the thread that held it has ended."""

    def __del__(self) -> None:
        self.close()


class Database:
    """The connections to one catalogue: one that writes, or a read-only one for each thread."""

    def __init__(self, path: Path, readonly: bool = False) -> None:
        self.path = path
        self._readonly = readonly
        self._mine = threading.local()
        self._lock = threading.Lock()
        self._every: weakref.WeakSet[sqlite3.Connection] = weakref.WeakSet()
        self._shared = None if readonly else self._kept(connect(path))

    def _kept(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        with self._lock:
            self._every.add(connection)
        return connection

    @property
    def db(self) -> sqlite3.Connection:
        """The connection of this thread."""
        if self._shared is not None:
            return self._shared
        found: sqlite3.Connection | None = getattr(self._mine, "db", None)
        if found is None:
            found = self._mine.db = self._kept(connect_to_read(self.path))
        return found

    def close(self) -> None:
        with self._lock:
            for connection in list(self._every):
                connection.close()
            self._every.clear()
        self._mine = threading.local()


def connect(path: Path) -> sqlite3.Connection:
    """Opens the database for writing, after creating it or upgrading it to the current format."""
    private_folder(path.parent)
    db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False, factory=_Connection)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        _bring_up_to_date(db, path.parent)
    except sqlite3.DatabaseError as error:
        db.close()
        raise _unreadable(path, error) from error
    except BaseException:
        db.close()
        raise
    return db


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Opens the database read-only, for one thread. On a read-only disk SQLite cannot create the shared memory through
    which it sees a writer; no writer can exist there, so the database is opened as immutable."""
    tried: sqlite3.Error | None = None
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        try:
            db = sqlite3.connect(
                f"file:{quote(str(path))}?{mode}",
                timeout=30,
                isolation_level=None,
                check_same_thread=False,
                uri=True,
                factory=_Connection,
            )
            try:
                found = _version(db)
            except BaseException:
                db.close()
                raise
        except sqlite3.OperationalError as error:
            tried = tried or error
            continue
        except sqlite3.DatabaseError as error:
            raise _unreadable(path, error) from error
        if found != VERSION:
            db.close()
            raise _newer(path.parent, found) if found > VERSION else _older(path.parent)
        return db
    raise _unreadable(path, tried or sqlite3.OperationalError("it cannot be opened"))


def _unreadable(path: Path, error: sqlite3.Error) -> StoreError:
    if is_full(error, path.parent):
        return DiskFullError(
            f"The disk that holds {path.parent} is full, so the catalogue cannot be opened. Nothing is lost. "
            "Free some space and run the command again."
        )
    return StoreError(
        f"The catalogue {path} cannot be read ({error}). Move the folder {path.parent} away and sync again."
    )


def _newer(folder: Path, found: int) -> StoreError:
    return NewerStoreError(
        f"{folder} was written by a newer Surefind (format {found}, this one reads {VERSION}). "
        "Upgrade with: pip install -U surefind."
    )


def _older(folder: Path) -> StoreError:
    return OlderStoreError(
        f"{folder} was written by an earlier release of Surefind. Bring it up to date with: surefind sync."
    )


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commits at the end of the `with` block; rolls back if it raises."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _bring_up_to_date(db: sqlite3.Connection, folder: Path) -> None:
    found = _version(db)
    if found > VERSION:
        raise _newer(folder, found)
    if found == 0:
        _step(db, 0, _SCHEMA, VERSION)
    else:
        for version in range(found, VERSION):
            _step(db, version, UPGRADES[version], version + 1)


def _step(db: sqlite3.Connection, before: int, statements: Sequence[str], after: int) -> None:
    with transaction(db):
        if _version(db) == before:  # unless another process has just done it
            for statement in statements:
                db.execute(statement)
            db.execute(f"PRAGMA user_version={after}")


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
