"""Connections to a SQLite file that may be damaged, and that several threads use: one connection for each thread."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from surefind.errors import ClosedError


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


class Connections:
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
