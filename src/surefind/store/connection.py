"""Opens SQLite files, which may be damaged, and which several threads use: one connection for each thread."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from surefind.errors import ClosedError
from surefind.store.checksums import register

BUSY_SECONDS = 30.0
"""Seconds that a statement waits for other processes."""
MEMORY = Path(":memory:")
"""The path of a file in memory."""


class Connection(sqlite3.Connection):
    """Supports weak references, closes at the latest when nobody holds it any more, and raises only errors of SQLite.

    SQLite crashes if a connection is closed while another thread executes a statement on it. So a connection that
    threads share is in a `Lent`: whoever executes a statement, or reads its rows, holds that, and it closes the
    connection when nobody does."""

    lent: weakref.ref[Lent] | None = None
    data = Path()
    """The data folder of its knowledge base, for messages."""

    def execute(self, *given: Any) -> sqlite3.Cursor:
        cursor = self._held_cursor()
        try:
            return cursor.execute(*given)
        except UnicodeDecodeError:  # a message of SQLite that quotes damaged names
            raise sqlite3.DatabaseError("a name in the file is not UTF-8") from None

    def executemany(self, *given: Any) -> sqlite3.Cursor:
        return self._held_cursor().executemany(*given)

    def _held_cursor(self) -> sqlite3.Cursor:
        if self.lent is None:
            return self.cursor()
        holder = self.lent()
        if holder is None:
            raise closed(self.data)
        cursor = self.cursor(_Cursor)
        cursor.holder = holder
        return cursor

    def __del__(self) -> None:
        self.close()


class _Cursor(sqlite3.Cursor):
    holder: Lent | None = None


def connect(path: Path, mode: str = "", patience: float = BUSY_SECONDS) -> Connection:
    """Opens a SQLite file, the only way to do so. Statements outside of a `transaction` are committed one by one.
    `mode` has options of SQLite, such as `mode=ro`."""
    where = f"file:{quote(str(path))}?{mode}" if mode else str(path)
    db = sqlite3.connect(
        where, timeout=patience, isolation_level=None, check_same_thread=False, uri=bool(mode), factory=Connection
    )
    register(db)
    return db


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


class Lent:
    """A connection that is closed when nobody holds this object: neither its owner nor a cursor of the connection. The
    connection itself is part of a circle with its statements, and only the garbage collector would find it.

    It has no `__del__`: a weak reference still gives an object whose `__del__` runs, and so another thread could take
    the connection while it is closed. What it holds is deleted after its weak references."""

    def __init__(self, connection: Connection, data: Path) -> None:
        self.connection = connection
        self.process = os.getpid()
        self._closing = _Closing(connection)
        connection.lent, connection.data = weakref.ref(self), data


class _Closing:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __del__(self) -> None:
        self._connection.close()


class ConnectionPool:
    """One connection for each thread to the file `path`. `connect` makes it when the thread first asks."""

    def __init__(self, path: Path, connect: Callable[[Path], Connection]) -> None:
        self.path = path
        self._connect = connect
        self._mine = threading.local()
        self._lock = threading.Lock()
        self._owners: weakref.WeakSet[_Owner] = weakref.WeakSet()
        self._closed = threading.Event()

    def get(self) -> Connection:
        """Returns the connection of this thread. Raises `ClosedError` after `close`."""
        owner: _Owner | None = getattr(self._mine, "owner", None)
        lent = owner.lent if owner else None
        if lent is None or lent.process != os.getpid():  # a connection must not be used after a fork
            lent = self._opened()
        return lent.connection

    def _opened(self) -> Lent:
        if self._closed.is_set():
            raise closed(self.path.parent)
        lent = Lent(self._connect(self.path), self.path.parent)
        owner = self._mine.owner = _Owner(lent)
        with self._lock:
            self._owners.add(owner)
        if self._closed.is_set():  # another thread closed the connections meanwhile
            self.close()
            raise closed(self.path.parent)
        return lent

    def close(self) -> None:
        """Closes the connections: at once, or after the last row that another thread is reading."""
        with self._lock:
            self._closed.set()
            for owner in list(self._owners):
                owner.lent = None
            self._owners.clear()


class _Owner:
    """Holds the connection of a thread until the thread ends, or the connections are closed."""

    def __init__(self, lent: Lent) -> None:
        self.lent: Lent | None = lent


def closed(data: Path) -> ClosedError:
    """Returns the error for a call after `close`, given the data folder of the knowledge base."""
    return ClosedError(
        f"The knowledge base in {data.parent} was closed. Open it again: KnowledgeBase.open({str(data.parent)!r})."
    )
