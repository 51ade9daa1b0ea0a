"""The catalogue's tables: how they are made, opened, and brought up to date."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from surefind.errors import DiskFullError, NewerStoreError, StoreError, is_full

VERSION = 3
NEVER = 2**62

_SCHEMA = f"""
CREATE TABLE sources (
    id INTEGER PRIMARY KEY AUTOINCREMENT, root TEXT UNIQUE, name TEXT, origin TEXT DEFAULT '',
    revision TEXT DEFAULT '');
CREATE TABLE documents (
    row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, source INTEGER, path TEXT, size INTEGER, mtime_ns INTEGER,
    seen_ns INTEGER, sha256 TEXT, content TEXT, title TEXT, format TEXT, metadata TEXT, acl TEXT, text TEXT,
    added INTEGER, removed INTEGER DEFAULT {NEVER}, places TEXT DEFAULT '[]', reader TEXT DEFAULT '');
CREATE INDEX documents_by_id ON documents (id);
CREATE TABLE layouts (id INTEGER PRIMARY KEY, spec TEXT UNIQUE);
CREATE TABLE chunked (layout INTEGER, document INTEGER, PRIMARY KEY (layout, document)) WITHOUT ROWID;
CREATE TABLE chunks (
    layout INTEGER, document INTEGER, seq INTEGER, start INTEGER, end INTEGER, headings TEXT, context TEXT,
    parent_start INTEGER, parent_end INTEGER, PRIMARY KEY (layout, document, seq)) WITHOUT ROWID;
CREATE TABLE problems (
    source INTEGER, path TEXT, reason TEXT, file TEXT, size INTEGER DEFAULT -1, mtime_ns INTEGER DEFAULT 0,
    seen_ns INTEGER DEFAULT 0, reader TEXT DEFAULT '', PRIMARY KEY (source, path));
CREATE TABLE generations (number INTEGER PRIMARY KEY, created TEXT, documents INTEGER);
CREATE TABLE indexes (key TEXT PRIMARY KEY, layout TEXT, spec TEXT, generation INTEGER);
"""

UPGRADES = {
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
}
"""What brings a catalogue from one format to the next."""


def connect(path: Path) -> sqlite3.Connection:
    """The database, whole and in the present format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        _bring_up_to_date(db, path.parent)
    except sqlite3.DatabaseError as error:
        db.close()
        if is_full(error, path.parent):
            raise DiskFullError(
                f"The disk that holds {path.parent} is full, and a catalogue cannot even be read then. Free some "
                "space; nothing is lost."
            ) from error
        raise StoreError(
            f"The catalogue {path} cannot be read ({error}). Move the folder {path.parent} away and sync again."
        ) from error
    return db


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
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
        db.close()
        raise NewerStoreError(
            f"{folder} was written by a newer Surefind (format {found}, this one reads {VERSION}). "
            "Upgrade with: pip install -U surefind."
        )
    if found == 0:
        _step(db, 0, _SCHEMA.strip().split(";\n"), VERSION)
    else:
        for version in range(found, VERSION):
            _step(db, version, UPGRADES[version], version + 1)


def _step(db: sqlite3.Connection, before: int, statements: Sequence[str], after: int) -> None:
    with transaction(db):
        if _version(db) == before:  # nobody was faster
            for statement in statements:
                db.execute(statement)
            db.execute(f"PRAGMA user_version={after}")


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
