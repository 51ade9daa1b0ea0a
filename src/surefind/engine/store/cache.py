"""A cache in a SQLite file: what it holds can be computed, or bought, again. So damage costs time, and is no error.

A row has a checksum over its key and its values, and a row that does not match counts as missing. A file that SQLite
cannot read is moved aside (`….damaged`) and a new one begins. On a disk that cannot be written to, the cache is read,
and nothing is stored.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from surefind.base.disk.sealed import private_folder
from surefind.base.errors import is_denied, is_full
from surefind.engine.store.database import MEMORY, checksum, closed, connect, connect_to_read, transaction

_BATCH = 500
"""The most keys in one statement."""
_KILOBYTES = 64_000
"""The memory for pages of the file. Keys are random, so with SQLite's 2 MB almost every row costs a read."""
_SUFFIXES = ("", "-wal", "-shm")
Values = tuple[Any, ...]


def remove(path: Path) -> None:
    """Deletes the file of a cache that is not open."""
    for suffix in _SUFFIXES:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


class Cache:
    """Stores rows by key. `columns` are the columns besides the key, as SQL declares them.

    Threads share one connection behind a lock. The thread that holds the lock writes the rows of all waiting threads in
    one transaction, so that threads do not queue for the disk.
    """

    def __init__(self, path: Path, table: str, columns: Sequence[str]) -> None:
        self.path = path
        self._table = table
        self._columns = columns
        self._names = ", ".join(["key", *(column.split()[0] for column in columns)])
        self._lock = threading.Lock()
        self._waiting: deque[Values] = deque()
        self._connection: sqlite3.Connection | None = None
        self._readonly = False
        self._closed = False

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Values]:
        """Returns the values of the keys that are stored and intact."""
        known: dict[bytes, Values] = {}
        for at in range(0, len(keys), _BATCH):
            part = keys[at : at + _BATCH]
            wanted = f"SELECT {self._names}, checksum FROM {self._table} WHERE key IN ({','.join('?' * len(part))})"
            for key, *values, seal in self._rows(wanted, part):
                if seal == checksum(key, *values):
                    known[key] = tuple(values)
        return known

    def put(self, rows: Iterable[Values]) -> None:
        """Stores rows of (key, values …), and replaces those that have the same key."""
        self._waiting.extend((*row, checksum(*row)) for row in rows)
        with self._lock:
            for _ in range(2):  # once more after a damaged file was moved aside
                with self._forgiving():
                    self._write_waiting()

    def _write_waiting(self) -> None:
        made = list(self._waiting)
        marks = ",".join("?" * (len(self._columns) + 2))
        connection = self._open()
        if made and not self._readonly:
            names = f"{self._names}, checksum"
            with transaction(connection):
                connection.executemany(f"INSERT OR REPLACE INTO {self._table} ({names}) VALUES ({marks})", made)
        for _ in made:
            self._waiting.popleft()

    def ask(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Returns the rows of a query about the table as a whole. Their checksums are not verified."""
        return self._rows(query, values) if self._connection or self.path.exists() else []

    def check(self) -> tuple[int, int]:
        """Reads everything. Returns how many rows are intact, and how many are damaged. Raises `sqlite3.DatabaseError`
        if the file is damaged."""
        if not self.path.exists():
            return 0, 0
        with self._lock:
            connection = self._open()
            problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if problem != "ok":
                raise sqlite3.DatabaseError(problem)
            rows = connection.execute(f"SELECT {self._names}, checksum FROM {self._table}")
            intact = [seal == checksum(*values) for *values, seal in rows]
        return sum(intact), len(intact) - sum(intact)

    def close(self) -> None:
        """Closes the file after the call that is using it. Later calls raise `ClosedError`."""
        with self._lock:
            self._closed = True
            self._close()

    def _close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def _rows(self, query: str, values: Sequence[Any]) -> list[Any]:
        rows: list[Any] = []
        with self._lock, self._forgiving():
            rows += self._open().execute(query, values)
        return rows

    @contextlib.contextmanager
    def _forgiving(self) -> Iterator[None]:
        """Moves a damaged file aside: what was wanted is then missing. Raises the error of a full or a busy disk."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if not _is_damage(error, self.path.parent):
                raise
            self._close()
            for suffix in _SUFFIXES:
                with contextlib.suppress(OSError):  # on a read-only disk it stays, and each run skips it
                    self.path.with_name(self.path.name + suffix).replace(f"{self.path}.damaged{suffix}")

    def _open(self) -> sqlite3.Connection:
        if self._closed:
            raise closed(self.path.parent.parent)
        if self._connection is None:
            try:
                self._connection = self._opened_to_write()
                self._readonly = False
            except (OSError, sqlite3.OperationalError) as error:
                if not (is_denied(error) or "unable to open" in str(error)):
                    raise
                self._connection = self._opened_to_read()
                self._readonly = True
        return self._connection

    def _opened_to_write(self) -> sqlite3.Connection:
        private_folder(self.path.parent)
        connection = connect(self.path)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(f"PRAGMA cache_size=-{_KILOBYTES}")
            columns = ", ".join(["key BLOB PRIMARY KEY", *self._columns, "checksum INTEGER"])
            connection.execute(f"CREATE TABLE IF NOT EXISTS {self._table} ({columns}) WITHOUT ROWID")
        except BaseException:
            connection.close()
            raise
        return connection

    def _opened_to_read(self) -> sqlite3.Connection:
        """Opens the file read-only, or an empty cache in memory if there is none."""
        if self.path.exists():
            return connect_to_read(self.path)
        connection = connect(MEMORY)
        connection.execute(f"CREATE TABLE {self._table} ({self._names}, checksum)")
        return connection


def _is_damage(error: sqlite3.DatabaseError, folder: Path) -> bool:
    busy = isinstance(error, sqlite3.OperationalError) and ("locked" in str(error) or "disk I/O error" in str(error))
    return not (busy or is_full(error, folder) or is_denied(error, folder))
