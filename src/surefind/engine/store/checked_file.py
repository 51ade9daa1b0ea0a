"""A SQLite file whose rows have checksums, which many processes and threads write to: each transaction borrows a
connection and is short, and a writer waits for the others. The desk and the questions are such files."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from surefind.base.disk.folders import private_folder
from surefind.base.errors import DamagedError, StoreError, UsageError, is_denied
from surefind.engine.store import session
from surefind.engine.store.checked import (
    CheckedRows,
    Format,
    damaged_pages,
    open_empty,
    open_to_write,
    unreadable,
)
from surefind.engine.store.connection import (
    BUSY_SECONDS,
    Connection,
    ConnectionPool,
    connect_to_read,
    explained,
    version,
)


@dataclass(frozen=True)
class FileKind:
    """What a file holds, and how it is opened."""

    title: str
    """How messages call it: `The desk`."""
    advice: str
    """What to do if it is damaged."""
    format: Format
    marked: bool = False
    """Whether a mark beside it has the number of the last session (`store.session`), so that a file from an earlier
    time is noticed."""
    patience: float = BUSY_SECONDS
    """Seconds that a statement waits for other processes."""
    pragmas: Sequence[str] = ()
    """Settings of a connection."""
    problems: Callable[[CheckedRows], Iterable[str]] = lambda rows: ()
    """Finds damage that no checksum of a row shows."""


class CheckedFile:
    """Connections to the file. A file that nobody has written to yet does not exist and is
    empty."""

    def __init__(self, path: Path, kind: FileKind) -> None:
        self.path, self.kind = path, kind
        self.mark = path.with_name(f"{path.name}-session")
        """Whoever moves the file away moves it, too."""
        self._connections = ConnectionPool(self.path, self._connect)
        self._empty = ConnectionPool(self.path, lambda _: open_empty(kind.format))

    @contextlib.contextmanager
    def reading(self) -> Iterator[CheckedRows]:
        """Yields the rows. What is read within the block is of one moment."""
        with self._explaining():
            last = self._last_session()  # first: somebody may save meanwhile
            pool = self._connections if self.path.exists() else self._empty
            with pool.connection() as db:
                db.execute("BEGIN")
                rows = self._rows(db)
                rows.check_session(last, self.mark)
                yield rows

    @contextlib.contextmanager
    def writing(self) -> Iterator[CheckedRows]:
        """Yields the rows in a transaction, which is committed at the end of the block unless it raises."""
        with self._explaining():
            last = self._last_session()
            private_folder(self.path.parent)
            if not self.path.exists():  # SQLite would let others read it
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            with self._connections.connection() as db:  # which rolls back what was not committed
                db.execute("BEGIN IMMEDIATE")
                rows, before = self._rows(db), db.total_changes
                rows.check_session(last, self.mark)
                yield rows
                number = self._counted(rows) if db.total_changes > before else 0
                if not number:
                    db.execute("COMMIT")
                    return
                with session.in_turn(self.mark) as record:
                    db.execute("COMMIT")
                    record(number, 0)

    def _last_session(self) -> int:
        return session.recorded(self.mark)[0] if self.kind.marked else 0

    def _counted(self, rows: CheckedRows) -> int:
        """Counts a session that wrote something. Returns its number; 0 for a file without a mark."""
        if not self.kind.marked:
            return 0
        rows.count_session()
        return rows.counter("session")

    def _rows(self, db: sqlite3.Connection) -> CheckedRows:
        return CheckedRows(db, self.kind.format.tables, self.damaged)

    def _connect(self, path: Path) -> Connection:
        """Opens the file after making it, if it does not exist. A file on a read-only disk is only read."""
        try:
            db = open_to_write(path, self.kind.format, path, self.kind.patience, self.kind.pragmas)
        except sqlite3.OperationalError as error:
            if not (is_denied(error) or "unable to open" in str(error)) or not path.exists():
                raise
            db = connect_to_read(path)
            if (stored := version(db)) != self.kind.format.version:
                db.close()
                raise unreadable(path, stored, self.kind.format.version) from None
        try:
            self._rows(db).check_schema()
        except BaseException:
            db.close()
            raise
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
        """Yields what is damaged, for `surefind doctor`: pages and rows, and what else the kind of file can find."""
        tables = self.kind.format.tables
        try:
            with self.reading() as rows:
                yield from damaged_pages(rows.db)
                for table in tables.counted:
                    try:
                        rows.check_groups(table) if table in tables.groups else list(rows.every(table))
                    except DamagedError as error:
                        yield error.what
                yield from self.kind.problems(rows)
        except DamagedError as error:
            yield error.what

    def close(self) -> None:
        self._connections.close()
        self._empty.close()
