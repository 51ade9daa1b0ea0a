"""The checksums of SQLite files: one for each row, and what shows that a row is missing.

Every row gets its checksum from a trigger, whichever statement writes it. A trigger also checks a row before it is
changed: a damaged row is never sealed again.

Lost rows: a counter holds the sum of the keys of a table, or of each group of its rows (`Tables`). In the catalogue, a
generation has the digest of its set of documents, `chunked` the digest of the chunks of a version, and a version the
length of its text.

Other damage needs other means, each with a test in tests/engine/test_damage.py or tests/kb/test_desk_damage.py that
fails without it: the checksum of the definitions of the tables (`checked`), the number of the last session for a file
that is whole and too old (`session`), the hash of a document's content for text that was changed together with its
checksum. Files that are no SQLite files have checksums of their own (`disk`).
"""

from __future__ import annotations

import json
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_SEPARATOR = "\x1f"
_ROW_END = "\x1e"
"""What separates rows that SQLite joined."""
_FORMATS = [_SEPARATOR.join(["%s"] * count) for count in range(40)]
_encode = json.JSONEncoder(ensure_ascii=False, default=lambda blob: [len(blob), zlib.crc32(blob)]).encode


def checksum(*values: object) -> int:
    """Returns the checksum of a row: of its table's name and its values. A separator keeps neighbouring values apart;
    values that contain it are written as JSON, which takes three times as long."""
    text = "" if bytes in map(type, values) else _FORMATS[len(values)] % values
    if not text or text.count(_SEPARATOR) >= len(values):
        text = _encode(values)
    return zlib.crc32(text.encode())


def joined_checksums(text: bytes, table: str, values: int, length: int, rows: int) -> str | None:
    """Returns the checksums of rows, with commas between them, given a text in which their values, with `length` bytes
    in all, were joined. None if the text is not that of the values: one of them contains a separator, or was not joined
    as a whole."""
    whole = len(text) == rows * (len(table) + values + 1) - 1 + length
    if not whole or text.count(_SEPARATOR.encode()) != rows * values or text.count(_ROW_END.encode()) != rows - 1:
        return None
    return ",".join(map(str, map(zlib.crc32, text.split(_ROW_END.encode()))))


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


def register(db: sqlite3.Connection) -> None:
    """Makes the functions available that the triggers use."""
    db.create_function("checksum", -1, checksum, deterministic=True)
    db.create_function("text_checksum", 2, text_checksum, deterministic=True)


@dataclass(frozen=True)
class Tables:
    """The tables of a SQLite file whose rows have checksums, and the statements that make these."""

    columns: Mapping[str, tuple[str, ...]]
    keys: Mapping[str, tuple[str, ...]]
    """The primary key of each table."""
    counted: Mapping[str, str]
    """The tables whose lost rows a counter shows, each with the integer column that is summed."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """The counted tables that have a counter for each value of a column, so that some of the rows can be checked
    without the others. The counter is called by the table and the value."""
    long: str = ""
    """The table of keys and long texts, if there is one: its checksum is `text_checksum`."""

    def checksum_of(self, table: str, alias: str) -> str:
        """Returns the SQL expression of the checksum of a row."""
        columns = ", ".join(f"{alias}{column}" for column in self.columns[table])
        return f"text_checksum({columns})" if table == self.long else f"checksum('{table}', {columns})"

    def joining(self, table: str) -> str:
        """Returns the beginning of a statement that joins the values of rows, as `checksum` does. It gives the text,
        the checksums of the rows, the bytes of the values, the number of rows without a BLOB, and that of all rows."""
        values = [f"coalesce({name}, 'None')" for name in self.columns[table]]
        joined = f"printf('{table}{f'{_SEPARATOR}%s' * len(values)}', {', '.join(values)})"
        size = " + ".join(f"length(CAST({value} AS BLOB))" for value in values)  # printf stops at a zero
        return (
            f"SELECT CAST(group_concat({joined}, char({ord(_ROW_END)})) AS BLOB), group_concat(checksum), sum({size}), "
            f"sum(max({', '.join(values)}) < x''), count(*)"  # a BLOB is greater than any text
        )

    def checked(self) -> list[str]:
        """Returns the statements that give new tables checksums and counters, and triggers that keep them."""
        return [
            "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID",
            *(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER" for table in self.columns),
            *(statement for table in self.columns for statement in self._triggers(table)),
            *(
                f"INSERT INTO counters (name, value) VALUES ('{name}', 0)"
                for name in (*(table for table in self.counted if table not in self.groups), "session")
            ),
        ]

    def _triggers(self, table: str) -> list[str]:
        columns = ", ".join(self.columns[table])
        here = " AND ".join(f"{key} = new.{key}" for key in self.keys[table])
        seal = f"UPDATE {table} SET checksum = {self.checksum_of(table, 'new.')} WHERE {here};"
        damaged = f"SELECT RAISE(ABORT, 'a row of {table} does not match its checksum')"
        made = [
            f"CREATE TRIGGER {table}_checked BEFORE UPDATE OF {columns} ON {table} "
            f"WHEN old.checksum IS NOT {self.checksum_of(table, 'old.')} BEGIN {damaged}; END",
            f"CREATE TRIGGER {table}_changed AFTER UPDATE OF {columns} ON {table} BEGIN {seal} END",
            f"CREATE TRIGGER {table}_added AFTER INSERT ON {table} BEGIN {seal} {self._count(table, '+', 'new')} END",
        ]
        if table in self.counted:
            less, more = self._count(table, "-", "old"), self._count(table, "+", "new")
            made.append(f"CREATE TRIGGER {table}_deleted AFTER DELETE ON {table} BEGIN {less} END")
            if group := self.groups.get(table):
                made.append(
                    f"CREATE TRIGGER {table}_moved AFTER UPDATE OF {group} ON {table} "
                    f"WHEN old.{group} IS NOT new.{group} BEGIN {less} {more} END"
                )
        return made

    def _count(self, table: str, sign: str, row: str) -> str:
        if table not in self.counted:
            return ""
        number = f"{row}.{self.counted[table]}"
        if group := self.groups.get(table):
            return (
                f"INSERT INTO counters (name, value) VALUES ('{table} ' || {row}.{group}, {sign} {number}) "
                "ON CONFLICT (name) DO UPDATE SET value = value + excluded.value;"
            )
        return f"UPDATE counters SET value = value {sign} {number} WHERE name = '{table}';"
