"""The SQLite file of the desk. Many processes and threads write to it: each thread has a connection, transactions are
short, and a writer waits for the others."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from surefind.errors import DamagedError, LockedError, NewerStoreError, StoreError, UsageError, is_denied, is_full
from surefind.folders import private_folder
from surefind.store.connection import Connection, Connections
from surefind.store.failures import explained

NAME = "desk.db"
_VERSION = 1
_PATIENCE = 30.0
"""Seconds that a transaction waits for the others."""
_SCHEMA = """
CREATE TABLE drafts (
  number INTEGER PRIMARY KEY AUTOINCREMENT, document TEXT NOT NULL, author TEXT NOT NULL, state TEXT NOT NULL,
  revision INTEGER NOT NULL, keeps INTEGER NOT NULL, base INTEGER, base_content TEXT NOT NULL, base_text TEXT NOT NULL,
  version INTEGER, generation INTEGER, created TEXT NOT NULL, changed TEXT NOT NULL
);
CREATE INDEX drafts_by_state ON drafts (state);
CREATE INDEX drafts_by_document ON drafts (document);
CREATE TABLE revisions (
  draft INTEGER NOT NULL, number INTEGER NOT NULL, name TEXT NOT NULL, author TEXT NOT NULL, created TEXT NOT NULL,
  data TEXT NOT NULL, text TEXT NOT NULL, title TEXT NOT NULL, acl TEXT NOT NULL, length INTEGER NOT NULL,
  PRIMARY KEY (draft, number)
) WITHOUT ROWID;
CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE comments (
  number INTEGER PRIMARY KEY, draft INTEGER NOT NULL, revision INTEGER NOT NULL, line INTEGER NOT NULL,
  author TEXT NOT NULL, text TEXT NOT NULL, created TEXT NOT NULL, reply_to INTEGER, resolved_by TEXT NOT NULL
);
CREATE INDEX comments_by_draft ON comments (draft);
CREATE TABLE approvals (
  draft INTEGER NOT NULL, revision INTEGER NOT NULL, reviewer TEXT NOT NULL, PRIMARY KEY (draft, revision, reviewer)
) WITHOUT ROWID;
CREATE TABLE events (
  number INTEGER PRIMARY KEY, draft INTEGER NOT NULL, at TEXT NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL,
  revision INTEGER NOT NULL
);
CREATE INDEX events_by_draft ON events (draft);
"""
"""`revisions.data`, `revisions.text` and `drafts.base_text` are keys of `blobs`."""


class Database:
    """Connections to the desk, one for each thread. A desk that nobody has written to yet has no file and is empty."""

    def __init__(self, data: Path) -> None:
        self.path = data / NAME
        self._connections = Connections(self.path, connect)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yields a connection. What is read within the block is of one moment."""
        with self._explaining():
            if not self.path.exists():
                empty = sqlite3.connect(":memory:", check_same_thread=False, factory=Connection)
                empty.executescript(_SCHEMA)
                yield empty
                return
            db = self._connections.get()
            db.execute("BEGIN")
            try:
                yield db
            finally:
                db.execute("ROLLBACK")

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yields a connection in a transaction, which is committed at the end of the block unless it raises."""
        with self._explaining():
            private_folder(self.path.parent)
            db = self._connections.get()
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise self._explained(error) from error
        except OverflowError:
            raise UsageError("There is no draft with such a large number.") from None

    def _explained(self, error: OSError | sqlite3.Error) -> Exception:
        if is_full(error, self.path.parent) or is_denied(error) or isinstance(error, OSError):
            return explained(error, self.path.parent)
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            return LockedError(f"The desk in {self.path} is in use by another program ({error}). Try again.")
        return damaged(self.path, str(error))

    def close(self) -> None:
        self._connections.close()


def connect(path: Path) -> Connection:
    """Opens the file after making it, if it does not exist. A file on a read-only disk is opened as immutable."""
    try:
        return _opened(str(path), False)
    except sqlite3.OperationalError as error:
        if not (is_denied(error) or "unable to open" in str(error)) or not path.exists():
            raise
        return _opened(f"file:{quote(str(path))}?mode=ro&immutable=1", True)


def _opened(where: str, uri: bool) -> Connection:
    db = sqlite3.connect(
        where, timeout=_PATIENCE, isolation_level=None, check_same_thread=False, uri=uri, factory=Connection
    )
    try:
        if not uri:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
        _prepare(db, where)
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, where: str) -> None:
    if _version(db) == 0:
        db.execute("BEGIN IMMEDIATE")  # after an error the connection is closed, which undoes all of it
        if _version(db) == 0:  # unless another process has just done it
            for statement in filter(str.strip, _SCHEMA.split(";")):
                db.execute(statement)
            db.execute(f"PRAGMA user_version={_VERSION}")
        db.execute("COMMIT")
    if _version(db) > _VERSION:
        raise NewerStoreError(f"{where} was written by a newer Surefind. Upgrade with: pip install -U surefind.")


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def damaged(path: Path, what: str) -> StoreError:
    """Returns the error for damage in the desk."""
    return DamagedError(
        f"The desk in {path} is damaged: {what}. Restore {path.name} from a backup, or move the files {path.name}* "
        "away to begin with an empty desk: what is published is in the catalogue and is not affected.",
        what,
    )


def keep(db: sqlite3.Connection, data: bytes) -> str:
    """Stores bytes once and returns their key."""
    key = hashlib.sha256(data).hexdigest()
    db.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (key, data))
    return key


def fetch(db: sqlite3.Connection, key: str, path: Path) -> bytes:
    """Returns stored bytes. Raises `DamagedError` if they are not what was stored."""
    row = db.execute("SELECT data FROM blobs WHERE sha256 = ?", (key,)).fetchone()
    data = row[0] if row else None
    if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != key:
        raise damaged(path, "the text of a draft does not match its checksum")
    return data


def problems(data: Path) -> Iterator[str]:
    """Yields what is damaged in the desk, for `surefind doctor`: pages, and files that do not match their checksums."""
    database = Database(data)
    try:
        with database.reading() as db:
            yield from (row[0] for row in db.execute("PRAGMA integrity_check(10)") if row[0] != "ok")
            for key, size in db.execute("SELECT sha256, length(data) FROM blobs").fetchall():
                try:
                    fetch(db, key, database.path)
                except DamagedError:
                    yield f"a file of {size} bytes does not match its checksum"
            wanted = "SELECT data FROM revisions UNION SELECT text FROM revisions UNION SELECT base_text FROM drafts"
            lost = db.execute(f"SELECT count(*) FROM ({wanted}) WHERE data NOT IN (SELECT sha256 FROM blobs)")
            if count := lost.fetchone()[0]:
                yield f"{count} files of drafts are missing"
    except DamagedError as error:
        yield error.what
    finally:
        database.close()
