"""SQLite files: how they are opened, which threads use them, tables of the catalogue, and checksums of what is shown.

A file may be damaged, and errors of disk and SQLite are raised again with advice on how to recover. One connection
writes the catalogue. Threads that read borrow a read-only connection for each statement, so that none waits for
another.

Checksums are stored beside what they are of, and compared when it is read:

    versions.digest      what decides who may read a document and what is shown of it; the hash of its content is part
    texts.checksum       a block of its text
    chunks.checksum      where a chunk is, its headings and its context
    chunked.digest       where all chunks of a version are, so that a lost one is noticed
    generations.digest   which versions a set of documents has
    revisions.digest     a revision of a draft

`surefind doctor` compares all of them, each text with the hash of its content, and lets SQLite check its pages. Other
files have checksums of their own (`base.disk`).
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import struct
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from surefind.base.disk.sealed import private_folder
from surefind.base.errors import (
    ClosedError,
    DamagedError,
    DeniedError,
    DiskFullError,
    LockedError,
    NewerStoreError,
    SpecError,
    StoreError,
    choices,
    denied_message,
    is_denied,
    is_full,
)
from surefind.engine.store.lock import nothing_yet

BUSY_SECONDS = 30.0
"""Seconds that a statement waits for other processes."""
MEMORY = Path(":memory:")
"""The path of a file in memory."""
_MAX_IDLE = 16
"""Connections that wait in a pool, at most."""


class Connection(sqlite3.Connection):
    """Raises only errors of SQLite. Its owner closes it, when no thread executes a statement on it: SQLite crashes
    otherwise. Threads share connections through a `ConnectionPool`."""

    def execute(self, *given: Any) -> sqlite3.Cursor:
        try:
            return super().execute(*given)
        except UnicodeDecodeError:  # a message of SQLite that quotes damaged names
            raise sqlite3.DatabaseError("a name in the file is not UTF-8") from None


def connect(path: Path, mode: str = "", patience: float = BUSY_SECONDS) -> Connection:
    """Opens a SQLite file, the only way to do so. Statements outside of a `transaction` are committed one by one.
    `mode` has options of SQLite, such as `mode=ro`."""
    where = f"file:{quote(str(path))}?{mode}" if mode else str(path)
    return sqlite3.connect(
        where, timeout=patience, isolation_level=None, check_same_thread=False, uri=bool(mode), factory=Connection
    )


def connect_to_read(path: Path) -> Connection:
    """Opens a file read-only. On a read-only disk SQLite cannot create the shared memory through which it sees a
    writer; no writer can exist there, so the file is opened as immutable."""
    tried: sqlite3.Error | None = None
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        try:
            db = connect(path, mode)
            try:
                version(db)
            except BaseException:
                db.close()
                raise
            return db
        except sqlite3.OperationalError as error:
            tried = tried or error
    raise tried or sqlite3.OperationalError("it cannot be opened")


def version(db: sqlite3.Connection) -> int:
    """Returns the number of the format of a file; 0 before it has tables."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


@dataclass(frozen=True)
class Format:
    """The format of a file."""

    version: int
    """Stored as SQLite's `user_version`."""
    statements: tuple[str, ...]
    """What makes the tables of a new file."""


def open_to_write(
    path: Path, wanted: Format, shown: Path, patience: float = BUSY_SECONDS, pragmas: Sequence[str] = ()
) -> Connection:
    """Opens a file after making it, if it is new. Errors name it as `shown`."""
    db = connect(path, patience=patience)
    try:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", *pragmas):
            db.execute(f"PRAGMA {pragma}")
        _make(db, wanted, shown)
    except BaseException:
        db.close()
        raise
    return db


def open_empty(wanted: Format) -> Connection:
    """Returns an empty file in memory."""
    db = connect(MEMORY)
    _make(db, wanted, Path())
    return db


def _make(db: sqlite3.Connection, wanted: Format, shown: Path) -> None:
    """Makes the tables of a new file. Raises `StoreError` for a file of another format."""
    stored = version(db)
    if stored not in (0, wanted.version):
        raise unreadable(shown, stored, wanted.version)
    if stored == wanted.version:
        return
    with transaction(db):
        if version(db) == 0:  # unless another process has just done it
            for statement in wanted.statements:
                db.execute(statement)
            db.execute(f"PRAGMA user_version={wanted.version}")


def unreadable(shown: Path, stored: int, wanted: int) -> StoreError:
    """Returns the error for a file of a format that this release does not know."""
    if stored > wanted:
        return NewerStoreError(
            f"{shown} was written by a newer Surefind (format {stored}, this one reads {wanted}). "
            "Upgrade with: pip install -U surefind."
        )
    return StoreError(
        f"{shown} was written before the first release of Surefind (format {stored}, this one reads {wanted}). Move it "
        "away, and run the command again."
    )


def damaged_pages(db: sqlite3.Connection) -> Iterator[str]:
    """Yields what SQLite finds in the pages of a file."""
    messages = [row[0] for row in db.execute("PRAGMA quick_check(10)")]
    yield from (text.replace("\n", " ") for text in messages if text != "ok")


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commits at the end of the `with` block; rolls back if it raises."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if db.in_transaction:  # SQLite has rolled back itself after some errors, such as a full disk
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def copy_file(path: Path, to: Path) -> None:
    """Makes a whole copy of a file, whoever writes to it meanwhile."""
    with contextlib.closing(connect_to_read(path)) as source, contextlib.closing(connect(to)) as target:
        source.backup(target)


class ConnectionPool:
    """Connections to the file `path`, each lent to one user at a time. `connect` makes one if all are lent.

    It has no lock: a deque is changed in one step. So nothing here waits, whichever thread is interrupted where."""

    def __init__(self, path: Path, connect: Callable[[Path], Connection]) -> None:
        self.path = path
        self._connect = connect
        self._idle: deque[Connection] = deque()
        self._closed = threading.Event()
        self._process = os.getpid()
        self._inherited: deque[Connection] = deque()

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection]:
        """Lends a connection until the end of the block. Raises `ClosedError` after `close`."""
        connection = self._take()
        try:
            yield connection
        finally:
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    connection.rollback()
            self.give_back(connection)

    def execute(self, *given: Any) -> Rows:
        """Executes a statement that reads. Its connection is lent until its rows were read."""
        connection = self._take()
        try:
            return Rows(self, connection, connection.execute(*given))
        except BaseException:
            self.give_back(connection)
            raise

    def give_back(self, connection: Connection) -> None:
        if len(self._idle) < _MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        if self._closed.is_set():
            self._close_idle()

    def close(self) -> None:
        """Closes the connections: at once, or when whoever has one gives it back."""
        self._closed.set()
        self._close_idle()

    def _take(self) -> Connection:
        if self._closed.is_set():
            raise closed(self.path.parent)
        if self._process != os.getpid():  # in a fork, a connection must neither be used nor closed
            self._process, self._inherited, self._idle = os.getpid(), self._idle, deque()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect(self.path)
        if self._closed.is_set():  # another thread closed the pool meanwhile
            self.give_back(connection)
            raise closed(self.path.parent)
        return connection

    def _close_idle(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()


class Rows:
    """The rows of a statement, to be read once: all of them, or the first ones by `fetchone`. Then, or when a loop over
    them ends early, the connection goes back to its pool."""

    def __init__(self, pool: ConnectionPool, connection: Connection, cursor: sqlite3.Cursor) -> None:
        self._pool = pool
        self._connection: Connection | None = connection
        self._cursor = cursor

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._cursor
        finally:
            self._end()

    def fetchone(self) -> Any:
        try:
            return self._cursor.fetchone()
        finally:
            self._end()

    def fetchall(self) -> list[Any]:
        return list(self)

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._cursor.close()
            self._pool.give_back(connection)


def closed(data: Path) -> ClosedError:
    """Returns the error for a call after `close`, given the data folder of the knowledge base."""
    return ClosedError(
        f"The knowledge base in {data.parent} was closed. Open it again: KnowledgeBase.open({str(data.parent)!r})."
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


FileVersion = tuple[int, int, int]
"""(inode, modification time in ns, size)."""


def file_version(path: Path) -> FileVersion:
    """Returns the version of a file. It contains the inode, so that it also differs when another file was moved into
    its place within one tick of the clock."""
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def find_named(folder: Path | None, name: str, file: str, what: str, advice: str) -> tuple[Path, FileVersion]:
    """Returns the `file` of what was trained or calibrated under a name, and its version. Raises `SpecError` with the
    names that exist, or with `advice` if there are none. Hidden folders are being written."""
    if folder is not None and name and Path(name).name == name and not name.startswith("."):
        path = folder / name / file
        with contextlib.suppress(FileNotFoundError):
            return path, file_version(path)
    there = sorted(path.parent.name for path in folder.glob(f"[!.]*/{file}")) if folder else []
    raise SpecError(f"There is no {what} {name!r}. {choices(name, there) if there else advice}")


_SEPARATOR = "\x1f"
_FORMATS = [_SEPARATOR.join(["%s"] * count) for count in range(40)]
_encode = json.JSONEncoder(ensure_ascii=False, default=lambda blob: [len(blob), zlib.crc32(blob)]).encode


def checksum(*values: object) -> int:
    """Returns the checksum of some values. A separator keeps neighbouring values apart; values that contain it are
    written as JSON, which takes three times as long."""
    text = "" if bytes in map(type, values) else _FORMATS[len(values)] % values
    if not text or text.count(_SEPARATOR) >= len(values):
        text = _encode(values)
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def text_checksum(place: int, text: str | bytes) -> int:
    """Returns the checksum of a row of `texts`: of its key and a block of text. Reading text takes most of a search's
    checks, and `checksum` would take three times as long."""
    data = text if isinstance(text, bytes) else str(text).encode()
    return zlib.crc32(data, zlib.crc32(place.to_bytes(8, "little", signed=True)))


def set_digest(versions: Iterable[int]) -> int:
    """Returns the digest of a set of documents, given the numbers of its versions in any order; -1 if they are not
    numbers, as in a damaged catalogue."""
    try:
        listed = sorted(versions)
        return zlib.crc32(struct.pack(f"<{len(listed)}q", *listed))
    except (TypeError, struct.error):
        return -1


def chunk_digest(layout: int, version: int, numbers: bytes) -> int:
    """Returns the digest of the chunks of a version. `numbers` has (seq, id, start, end, start and end of the passage
    that a search returns) of each chunk, as 64-bit integers."""
    return zlib.crc32(numbers, zlib.crc32(struct.pack("<2q", layout, version)))


CHUNK = (
    "layout", "version", "seq", "id", "start", "end", "headings", "context", "parent_start", "parent_end", "language",
)  # fmt: skip
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
    parent_start INTEGER, parent_end INTEGER, language TEXT, checksum INTEGER,
    PRIMARY KEY (layout, version, seq)) WITHOUT ROWID""",
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
FORMAT = Format(8, _STATEMENTS)
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
