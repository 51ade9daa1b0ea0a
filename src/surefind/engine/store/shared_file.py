"""A SQLite file that many processes and threads write to: each transaction borrows a connection and is short, and a
writer waits for the others. The drafts, the questions and the log of queries are such files."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from surefind.base.disk.sealed import private_folder
from surefind.base.errors import DamagedError, StoreError, UsageError, is_denied
from surefind.engine.store.database import (
    BUSY_SECONDS,
    Connection,
    ConnectionPool,
    Format,
    connect_to_read,
    damaged_pages,
    explained,
    open_empty,
    open_to_write,
    unreadable,
    version,
)


@dataclass(frozen=True)
class FileKind:
    """What a file holds, and how it is opened."""

    title: str
    """How messages call it: `The file of drafts`."""
    advice: str
    """What to do if it is damaged."""
    format: Format
    patience: float = BUSY_SECONDS
    """Seconds that a statement waits for other processes."""
    pragmas: Sequence[str] = ()
    """Settings of a connection."""
    problems: Callable[[sqlite3.Connection], Iterable[str]] = lambda db: ()
    """Finds damage that SQLite does not notice."""


class SharedFile:
    """Connections to the file. A file that nobody has written to yet does not exist and is empty."""

    def __init__(self, path: Path, kind: FileKind) -> None:
        self.path, self.kind = path, kind
        self._connections = ConnectionPool(self.path, self._connect)
        self._empty = ConnectionPool(self.path, lambda _: open_empty(kind.format))

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yields a connection. What is read within the block is of one moment. A `sqlite3.DatabaseError` that is raised
        within it says what is damaged, and becomes a `DamagedError`."""
        with self._explaining():
            pool = self._connections if self.path.exists() else self._empty
            with pool.connection() as db:
                db.execute("BEGIN")
                yield db

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yields a connection in a transaction, which is committed at the end of the block unless it raises."""
        with self._explaining():
            private_folder(self.path.parent)
            if not self.path.exists():  # SQLite would let others read it
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            with self._connections.connection() as db:  # which rolls back what was not committed
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")

    def _connect(self, path: Path) -> Connection:
        """Opens the file after making it, if it does not exist. A file on a read-only disk is only read."""
        try:
            return open_to_write(path, self.kind.format, path, self.kind.patience, self.kind.pragmas)
        except sqlite3.OperationalError as error:
            if not (is_denied(error) or "unable to open" in str(error)) or not path.exists():
                raise
            db = connect_to_read(path)
            if (stored := version(db)) != self.kind.format.version:
                db.close()
                raise unreadable(path, stored, self.kind.format.version) from None
            return db

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise explained(error, self.path.parent, self.damaged, f"{self.kind.title} in {self.path}") from error
        except OverflowError:  # a number that SQLite cannot hold
            raise UsageError("There is nothing with such a large number.") from None

    def damaged(self, what: str) -> StoreError:
        """Returns the error for damage in the file."""
        return DamagedError(f"{self.kind.title} in {self.path} is damaged: {what}. {self.kind.advice}", what)

    def problems(self) -> Iterator[str]:
        """Yields what is damaged, for `surefind doctor`."""
        try:
            with self.reading() as db:
                yield from damaged_pages(db)
                yield from self.kind.problems(db)
        except DamagedError as error:
            yield error.what

    def close(self) -> None:
        self._connections.close()
        self._empty.close()
