"""SQLite files whose rows have checksums: made, opened, and read with each row checked.

The catalogue and the desk are such files. `checksums.Tables` says what is checked; `session` notices a file that is
older than it should be.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surefind.base.errors import NewerStoreError, StoreError
from surefind.engine.store.checksums import Tables, checksum, joined_checksums, text_checksum
from surefind.engine.store.connection import BUSY_SECONDS, MEMORY, Connection, connect, transaction, version

_ROWS_AT_ONCE = 1_000
"""The rows that SQLite joins to one text."""


@dataclass(frozen=True)
class Format:
    """The format of a file: its tables, with their checksums."""

    version: int
    """Stored as SQLite's `user_version`."""
    statements: tuple[str, ...]
    """The statements that make the tables of a new file, without checksums and counters."""
    tables: Tables
    counters: Mapping[str, str] = field(default_factory=dict)
    """Counters besides those of `tables`, with their first values in SQL."""

    @property
    def schema(self) -> tuple[str, ...]:
        """The statements that make a new file."""
        first = (
            f"INSERT INTO counters (name, value) VALUES ('{name}', {value})" for name, value in self.counters.items()
        )
        return (*self.statements, *self.tables.checked(), *first)


class CheckedRows:
    """Reads rows through a connection, and checks them. `damaged` makes the error for what does not match."""

    def __init__(self, db: sqlite3.Connection | None, tables: Tables, damaged: Callable[[str], StoreError]) -> None:
        self._connection = db
        self.tables = tables
        self.damaged = damaged

    @property
    def db(self) -> sqlite3.Connection:
        assert self._connection is not None
        return self._connection

    def rows(self, table: str, rest: str = "", values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Returns rows of a table after checking them: all, or those that `rest` selects, such as `WHERE id = ?`."""
        columns = ", ".join(self.tables.columns[table])
        sealed_rows = self.db.execute(f"SELECT {columns}, checksum FROM {table} {rest}", values)
        return [self.checked(table, row) for row in sealed_rows]

    def group(self, table: str, value: Any) -> list[tuple[Any, ...]]:
        """Returns the rows of a group in order of key, after checking each, and that none is missing. For use within
        a transaction."""
        order = ", ".join(self.tables.keys[table])
        rows = self.rows(table, f"WHERE {self.tables.groups[table]} = ? ORDER BY {order}", (value,))
        at = self.tables.columns[table].index(self.tables.counted[table])
        counter = self.rows("counters", "WHERE name = ?", (f"{table} {value}",))
        if sum(row[at] for row in rows) != (counter[0][1] if counter else 0):
            raise self.damaged(f"the table {table} has lost rows")
        return rows

    def check_groups(self, table: str) -> None:
        """Checks all rows of a table that has groups. For use within a transaction."""
        columns = self.tables.columns[table]
        at, group = columns.index(self.tables.counted[table]), columns.index(self.tables.groups[table])
        counts: Counter[str] = Counter()
        for row in self.rows(table):
            counts[f"{table} {row[group]}"] += row[at]
        counters = self.rows("counters", "WHERE name > ? AND name < ?", (f"{table} ", f"{table}!"))
        if {name: total for name, total in counters if total} != counts:
            raise self.damaged(f"the table {table} has lost rows")

    def every(self, table: str) -> Iterator[tuple[Any, ...]]:
        """Yields all rows of a table in order of key, after checking each. Raises `DamagedError` at the end if rows are
        missing. One statement reads the rows and their counter, so both are from the same moment."""
        key, total = self.tables.counted[table], 0
        columns = ", ".join(f"t.{column}" for column in self.tables.columns[table])
        sealed_rows = self.db.execute(
            f"SELECT {columns}, t.checksum, c.value, c.checksum FROM counters c LEFT JOIN {table} t ON 1 "
            f"WHERE c.name = '{table}' ORDER BY t.{key}"
        )
        expected: int | None = None
        for *row, value, seal in sealed_rows:
            if expected is None:
                _, expected = self.checked("counters", (table, value, seal))
            if row[0] is not None:
                whole = self.checked(table, row)
                total += whole[0]
                yield whole
        if total != expected:
            raise self.damaged(f"the table {table} has lost rows")

    def check_every(self, table: str) -> None:
        """Checks what `every` checks, in half of the time: SQLite joins the values of many rows to one text, and other
        threads can run meanwhile. For a writer: nobody else may change the table meanwhile."""
        key, total = self.tables.counted[table], 0
        last = self.db.execute(f"SELECT max({key}) FROM {table}").fetchone()[0]
        for start in range(0, (last or 0) + 1, _ROWS_AT_ONCE):
            some = f"WHERE {key} >= {start} AND {key} < {start + _ROWS_AT_ONCE}"
            self.check_some(table, some)
            total += self.db.execute(f"SELECT coalesce(sum({key}), 0) FROM {table} {some}").fetchone()[0]
        if total != self.counter(table):
            raise self.damaged(f"the table {table} has lost rows")

    def check_some(self, table: str, where: str) -> None:
        """Checks some rows, at most a few thousand."""
        text, seals, length, texts, count = self.db.execute(
            f"{self.tables.joining(table)} FROM {table} {where}"
        ).fetchone()
        columns = len(self.tables.columns[table])
        if count and (texts != count or joined_checksums(text, table, columns, length, count) != seals):
            self.rows(table, where)  # a damaged row, or one with an odd value

    def counter(self, name: str) -> int:
        """Returns the value of a counter."""
        rows = self.rows("counters", "WHERE name = ?", (name,))
        if not rows:
            raise self.damaged(f"the counter {name} is missing")
        return int(rows[0][1])

    def checked(self, table: str, row: Sequence[Any]) -> tuple[Any, ...]:
        """Returns a row, given with its checksum, without the checksum. Raises `DamagedError` if it does not match."""
        *values, seal = row
        if seal != (text_checksum(*values) if table == self.tables.long else checksum(table, *values)):
            name = f"the document {values[1]!r}" if table == "versions" else f"row {values[0]!r}"
            raise self.damaged(f"{name} in the table {table} does not match its checksum")
        return tuple(values)

    def check_schema(self) -> None:
        """Checks the definitions of the tables. They contain defaults and triggers, so damage there spreads."""
        if self.counter("schema") != _schema_checksum(self.db):
            raise self.damaged("the definitions of its tables do not match their checksum")

    def check_session(self, last: int, mark: Path) -> None:
        """Raises `DamagedError` if the file is older than the `last` session that wrote to it, as the file `mark`
        says."""
        if last and self.counter("session") < last:
            raise self.damaged(
                f"it is from an earlier time than the files beside it (to use it nevertheless, delete {mark})"
            )

    def count_session(self) -> None:
        """Counts a session that wrote something."""
        self.db.execute("UPDATE counters SET value = value + 1 WHERE name = 'session'")


def damaged_pages(db: sqlite3.Connection) -> Iterator[str]:
    """Yields what SQLite finds in the pages of a file."""
    messages = [row[0] for row in db.execute("PRAGMA integrity_check(10)")]
    yield from (text.replace("\n", " ") for text in messages if text != "ok")


# ---------------------------------------------------------------- opening


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


def _make(db: sqlite3.Connection, wanted: Format, shown: Path) -> None:
    """Makes the tables of a new file. Raises `StoreError` for a file of another format."""
    stored = version(db)
    if stored not in (0, wanted.version):
        raise unreadable(shown, stored, wanted.version)
    if stored == wanted.version:
        return
    with transaction(db):
        if version(db) == 0:  # unless another process has just done it
            for statement in wanted.schema:
                db.execute(statement)
            db.execute("INSERT INTO counters (name, value) VALUES ('schema', ?)", (_schema_checksum(db),))
            db.execute(f"PRAGMA user_version={wanted.version}")


def _schema_checksum(db: sqlite3.Connection) -> int:
    rows = db.execute("SELECT coalesce(sql, name) FROM sqlite_master ORDER BY name")
    return checksum("schema", "\n".join(sql for (sql,) in rows))
