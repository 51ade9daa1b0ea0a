"""Opens SQLite files, which may be damaged, and lends connections to them to the threads that use them. Re-raises disk
and SQLite errors with advice on how to recover.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

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
