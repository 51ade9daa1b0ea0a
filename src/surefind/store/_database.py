"""Creates, opens and upgrades the catalogue, and checks the rows that are read from it.

One connection writes. Each thread that reads has its own read-only connection, so that no thread waits for another.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from surefind.errors import NewerStoreError, OlderStoreError, StoreError
from surefind.folders import private_folder
from surefind.store._schema import SCHEMA, UPGRADES, VERSION
from surefind.store.checksums import COLUMNS, COUNTED, checksum, joined_checksum, joined_format, register
from surefind.store.connection import Connection, Connections, Lent, closed
from surefind.store.failures import damaged, explained
from surefind.store.lock import nothing_yet


class Database:
    """The connections to one catalogue: one that writes, or a read-only one for each thread."""

    def __init__(self, path: Path, readonly: bool = False) -> None:
        self.path = path
        self._reading = Connections(path, connect_to_read) if readonly else None
        self._writing = None if readonly else Lent(connect(path), path.parent)

    @property
    def db(self) -> sqlite3.Connection:
        """The connection of this thread, or the one that writes. Raises `ClosedError` after `close`."""
        if self._reading is not None:
            return self._reading.get()
        lent = self._writing
        if lent is None:
            raise closed(self.path.parent)
        return lent.connection

    # ------------------------------------------------------------ checked rows

    def rows(self, table: str, rest: str = "", values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Returns rows of a table after checking them: all, or those that `rest` selects, such as `WHERE id = ?`."""
        found = self.db.execute(f"SELECT {', '.join(COLUMNS[table])}, checksum FROM {table} {rest}", values)
        return [self.checked(table, row) for row in found]

    def every(self, table: str) -> Iterator[tuple[Any, ...]]:
        """Yields all rows of a table in order of key, after checking each. Raises `DamagedError` at the end if rows are
        missing. One statement reads the rows and their counter, so both are from the same moment."""
        key, total = COUNTED[table], 0
        columns = ", ".join(f"t.{column}" for column in COLUMNS[table])
        found = self.db.execute(
            f"SELECT {columns}, t.checksum, c.value, c.checksum FROM counters c LEFT JOIN {table} t ON 1 "
            f"WHERE c.name = '{table}' ORDER BY t.{key}"
        )
        expected: int | None = None
        for *row, value, seal in found:
            if expected is None:
                _, expected = self.checked("counters", (table, value, seal))
            if row[0] is not None:
                whole = self.checked(table, row)
                total += whole[0]
                yield whole
        if total != expected:
            raise self.damaged(f"the table {table} has lost rows")

    def checked_keys(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Does what `every` does, and yields only the key and these columns of each row. SQLite joins the values of a
        row, which takes half of the time. For a writer: nobody else may change the table meanwhile."""
        key, total = COUNTED[table], 0
        names = ", ".join(COLUMNS[table])
        joined = f"printf('{joined_format(table)}', {names})"
        size = " + ".join(f"length(CAST({name} AS BLOB))" for name in COLUMNS[table])  # printf stops at a zero
        found = self.db.execute(  # a BLOB is greater than any text: a text that has become one is not joined
            f"SELECT checksum, CASE WHEN max({names}) < x'' THEN CAST({joined} AS BLOB) END, {size}, {key}, "
            f"{', '.join(columns)} FROM {table} ORDER BY {key}"
        )
        for seal, text, length, *wanted in found:
            if text is None or joined_checksum(text, table, length) != seal:
                self.rows(table, f"WHERE {key} = ?", wanted[:1])  # a damaged row, or one with an odd value
            total += wanted[0]
            yield tuple(wanted)
        if total != self.counter(table):
            raise self.damaged(f"the table {table} has lost rows")

    def counter(self, name: str) -> int:
        """Returns the value of a counter."""
        found = self.rows("counters", "WHERE name = ?", (name,))
        if not found:
            raise self.damaged(f"the counter {name} is missing")
        return int(found[0][1])

    def checked(self, table: str, row: Sequence[Any]) -> tuple[Any, ...]:
        """Returns a row, given with its checksum, without the checksum. Raises `DamagedError` if it does not match."""
        *values, seal = row
        if seal != checksum(table, *values):
            name = f"the document {values[1]!r}" if table == "versions" else f"row {values[0]!r}"
            raise self.damaged(f"{name} in the table {table} does not match its checksum")
        return tuple(values)

    def check_schema(self) -> None:
        """Checks the definitions of the tables. They contain defaults and triggers, so damage there spreads."""
        if self.counter("schema") != _schema_checksum(self.db):
            raise self.damaged("the definitions of its tables do not match their checksum")

    def damaged(self, what: str) -> StoreError:
        """Returns the error for damage in the catalogue."""
        return damaged(self.path.parent, what)

    def close(self) -> None:
        if self._reading is not None:
            self._reading.close()
        self._writing = None  # a thread that uses it holds it, and it is closed when nobody does


def connect(path: Path) -> Connection:
    """Opens the database for writing, after creating it or upgrading it to the current format."""
    private_folder(path.parent)
    db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False, factory=Connection)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        register(db)
        _bring_up_to_date(db, path.parent)
    except sqlite3.DatabaseError as error:
        db.close()
        raise explained(error, path.parent) from error
    except BaseException:
        db.close()
        raise
    return db


def connect_to_read(path: Path) -> Connection:
    """Opens the database read-only, for one thread. On a read-only disk SQLite cannot create the shared memory through
    which it sees a writer; no writer can exist there, so the database is opened as immutable."""
    tried: sqlite3.Error | None = None
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        try:
            db = sqlite3.connect(
                f"file:{quote(str(path))}?{mode}",
                timeout=30,
                isolation_level=None,
                check_same_thread=False,
                uri=True,
                factory=Connection,
            )
            try:
                found, begun = _version(db), _has_tables(db)
            except BaseException:
                db.close()
                raise
        except sqlite3.OperationalError as error:
            tried = tried or error
            continue
        except sqlite3.DatabaseError as error:
            raise explained(error, path.parent) from error
        if found != VERSION:
            db.close()
            raise _unusable(path.parent, found, begun)
        return db
    tried = tried or sqlite3.OperationalError("it cannot be opened")
    raise explained(tried, path.parent) from tried


def _unusable(folder: Path, found: int, begun: bool) -> StoreError:
    """Why a catalogue of another format cannot be read. One without tables was not finished: a first sync was killed,
    or is still running."""
    if not found and not begun:
        return nothing_yet(folder, "There is no knowledge base here yet: the first sync did not finish.")
    return _newer(folder, found) if found > VERSION else _older(folder)


def _newer(folder: Path, found: int) -> StoreError:
    return NewerStoreError(
        f"{folder} was written by a newer Surefind (format {found}, this one reads {VERSION}). "
        "Upgrade with: pip install -U surefind."
    )


def _older(folder: Path) -> StoreError:
    return OlderStoreError(
        f"{folder} was written by an earlier release of Surefind. Bring it up to date with: surefind sync."
    )


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commits at the end of the `with` block; rolls back if it raises."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _bring_up_to_date(db: sqlite3.Connection, folder: Path) -> None:
    found = _version(db)
    if found > VERSION:
        raise _newer(folder, found)
    if found == 0:
        _step(db, 0, SCHEMA, VERSION)
    else:
        for version in range(found, VERSION):
            _step(db, version, UPGRADES[version], version + 1)


def _step(db: sqlite3.Connection, before: int, statements: Sequence[str], after: int) -> None:
    with transaction(db):
        if _version(db) == before:  # unless another process has just done it
            for statement in statements:
                db.execute(statement)
            if after == VERSION:
                seal = _schema_checksum(db)
                db.execute("INSERT OR REPLACE INTO counters (name, value) VALUES ('schema', ?)", (seal,))
            db.execute(f"PRAGMA user_version={after}")


def _schema_checksum(db: sqlite3.Connection) -> int:
    rows = db.execute("SELECT coalesce(sql, name) FROM sqlite_master ORDER BY name")
    return checksum("schema", "\n".join(sql for (sql,) in rows))


def _has_tables(db: sqlite3.Connection) -> bool:
    return bool(db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
