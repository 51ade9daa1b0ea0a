"""The SQLite file of the desk. Many processes and threads write to it: each thread has a connection, transactions are
short, and a writer waits for the others. Rows have checksums, as those of the catalogue do, and each transaction that
changes something is a session (`store.session`)."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from surefind.desk._rows import DraftRow, RevisionRow
from surefind.errors import DamagedError, OlderStoreError, StoreError, UsageError, is_denied
from surefind.folders import private_folder
from surefind.store import session
from surefind.store.checked import CheckedRows, Format, newer, open_empty, open_to_read, open_to_write
from surefind.store.checksums import Tables
from surefind.store.connection import Connection, Connections
from surefind.store.failures import explained
from surefind.store.integrity import damaged_pages

NAME = "desk.db"
MARK = "desk.db-session"
"""The file that says how many sessions wrote to the desk. Whoever moves the files `desk.db*` away moves it, too."""
_TABLES = """
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
"""The tables of the first format. `revisions.data`, `revisions.text` and `drafts.base_text` are keys of `blobs`, which
need no other checksum."""
TABLES = Tables(
    columns={
        "drafts": DraftRow._fields,
        "revisions": RevisionRow._fields,
        "comments": (
            "number", "draft", "revision", "line", "author", "text", "created", "reply_to", "resolved_by",
        ),
        "approvals": ("draft", "revision", "reviewer"),
        "events": ("number", "draft", "at", "who", "what", "revision"),
        "counters": ("name", "value"),
    },
    keys={
        "drafts": ("number",), "revisions": ("draft", "number"), "comments": ("number",),
        "approvals": ("draft", "revision", "reviewer"), "events": ("number",), "counters": ("name",),
    },
    counted={
        "drafts": "number", "revisions": "number", "comments": "number", "approvals": "revision", "events": "number",
    },
    groups={"drafts": "state", "revisions": "draft", "comments": "draft", "approvals": "draft", "events": "draft"},
)  # fmt: skip
_SEALED = (
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID",
    *TABLES.added_columns(),
    *TABLES.seals(),
)
"""What turns the first format into the second: checksums. A new desk gets them in the same way."""
FORMAT = Format(2, (*filter(str.strip, _TABLES.split(";")), *_SEALED), {1: _SEALED}, TABLES)


class Database:
    """Connections to the desk, one for each thread. A desk that nobody has written to yet has no file and is empty."""

    def __init__(self, data: Path) -> None:
        self.path, self.mark = data / NAME, data / MARK
        self._connections = Connections(self.path, self._connect)
        self._empty = Connections(self.path, lambda _: open_empty(FORMAT))

    @contextlib.contextmanager
    def reading(self) -> Iterator[CheckedRows]:
        """Yields the rows. What is read within the block is of one moment."""
        with self._explaining():
            last, _ = session.recorded(self.mark)  # first: somebody may save meanwhile
            db = (self._connections if self.path.exists() else self._empty).get()
            db.execute("BEGIN")
            try:
                rows = self._rows(db)
                rows.check_session(last, self.mark)
                yield rows
            finally:
                db.execute("ROLLBACK")

    @contextlib.contextmanager
    def writing(self) -> Iterator[CheckedRows]:
        """Yields the rows in a transaction, which is committed at the end of the block unless it raises."""
        with self._explaining():
            last, _ = session.recorded(self.mark)
            private_folder(self.path.parent)
            db = self._connections.get()
            db.execute("BEGIN IMMEDIATE")
            try:
                rows, before = self._rows(db), db.total_changes
                rows.check_session(last, self.mark)
                yield rows
                changed = db.total_changes > before
                if changed:
                    rows.count_session()
                number = rows.counter("session")
            except BaseException:
                db.execute("ROLLBACK")
                raise
            if not changed:
                db.execute("COMMIT")
                return
            with session.in_turn(self.mark) as record:
                db.execute("COMMIT")
                record(number, 0)

    def _rows(self, db: sqlite3.Connection) -> CheckedRows:
        return CheckedRows(db, TABLES, self.damaged)

    def _connect(self, path: Path) -> Connection:
        """Opens the file after making it, if it does not exist. A file on a read-only disk is only read."""
        try:
            db = open_to_write(path, FORMAT, path)
        except sqlite3.OperationalError as error:
            if not (is_denied(error) or "unable to open" in str(error)) or not path.exists():
                raise
            db = self._connect_to_read(path)
        try:
            self._rows(db).check_schema()
        except BaseException:
            db.close()
            raise
        return db

    def _connect_to_read(self, path: Path) -> Connection:
        db, found = open_to_read(path)
        if found == FORMAT.version:
            return db
        db.close()
        if found > FORMAT.version:
            raise newer(path, found, FORMAT.version)
        raise OlderStoreError(
            f"{path} was written by an earlier release of Surefind and cannot be changed here. Make its folder "
            "writable, and list the drafts once: surefind draft list."
        )

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise explained(error, self.path.parent, self.damaged, f"The desk in {self.path}") from error
        except OverflowError:
            raise UsageError("There is no draft with such a large number.") from None

    def damaged(self, what: str) -> StoreError:
        """Returns the error for damage in the desk."""
        return DamagedError(
            f"The desk in {self.path} is damaged: {what}. Restore the files {NAME}* from a backup, or move them away "
            "to begin with an empty desk: what is published is in the catalogue and is not affected.",
            what,
        )

    def problems(self) -> Iterator[str]:
        """Yields what is damaged in the desk, for `surefind doctor`: pages, rows, and files that do not match their
        checksums."""
        try:
            with self.reading() as rows:
                yield from damaged_pages(rows.db)
                for table in TABLES.groups:
                    try:
                        rows.check_groups(table)
                    except DamagedError as error:
                        yield error.what
                yield from _damaged_blobs(rows)
        except DamagedError as error:
            yield error.what

    def close(self) -> None:
        self._connections.close()
        self._empty.close()


def keep(rows: CheckedRows, data: bytes) -> str:
    """Stores bytes once and returns their key."""
    key = hashlib.sha256(data).hexdigest()
    rows.db.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (key, data))
    return key


def fetch(rows: CheckedRows, key: str) -> bytes:
    """Returns stored bytes. Raises `DamagedError` if they are not what was stored."""
    row: tuple[Any, ...] | None = rows.db.execute("SELECT data FROM blobs WHERE sha256 = ?", (key,)).fetchone()
    data = row[0] if row else None
    if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != key:
        raise rows.damaged("the text of a draft does not match its checksum")
    return data


def _damaged_blobs(rows: CheckedRows) -> Iterator[str]:
    for key, size in rows.db.execute("SELECT sha256, length(data) FROM blobs").fetchall():
        try:
            fetch(rows, key)
        except DamagedError:
            yield f"a file of {size} bytes does not match its checksum"
    wanted = "SELECT data FROM revisions UNION SELECT text FROM revisions UNION SELECT base_text FROM drafts"
    lost = rows.db.execute(f"SELECT count(*) FROM ({wanted}) WHERE data NOT IN (SELECT sha256 FROM blobs)")
    if count := lost.fetchone()[0]:
        yield f"{count} files of drafts are missing"
