"""The checksums of the catalogue: one for each row, and what shows that a row is missing.

A row of a small table gets its checksum from a trigger, which first checks the row that it changes: a damaged row is
never sealed again. The rows of `texts` and `chunks`, of which there are many, get theirs when they are inserted.

Lost rows: a counter holds the sum of the keys of a table (`COUNTED`), a generation the digest of its set of documents,
`chunked` the digest of the chunks of a version, and a version the length of its text.
"""

from __future__ import annotations

import json
import sqlite3
import struct
import zlib
from collections.abc import Iterable

COLUMNS: dict[str, tuple[str, ...]] = {
    "sources": ("id", "root", "name", "origin", "revision"),
    "versions": (
        "row", "id", "source", "path", "size", "mtime_ns", "seen_ns", "sha256", "reader", "content", "title", "format",
        "metadata", "acl", "places", "length", "state", "author", "created",
    ),
    "layouts": ("id", "spec"),
    "problems": ("source", "path", "reason", "file", "size", "mtime_ns", "seen_ns", "reader"),
    "generations": ("number", "created", "documents", "contents", "author", "reason", "digest"),
    "indexes": ("key", "contents", "layout", "spec"),
    "counters": ("name", "value"),
}  # fmt: skip
"""The columns of the tables whose checksums are kept by triggers."""
CHUNK = ("layout", "version", "seq", "id", "start", "end", "headings", "context", "parent_start", "parent_end")
"""The columns of `chunks`."""
COUNTED = {"sources": "id", "versions": "row", "layouts": "id", "generations": "number"}
"""The tables whose lost rows a counter shows, each with its integer key."""
_KEYS = {"problems": ("source", "path"), "indexes": ("key", "contents"), "counters": ("name",)}
"""The keys of the other tables."""
_SEPARATOR = "\x1f"
_FORMATS = [_SEPARATOR.join(["%s"] * count) for count in range(40)]
_encode = json.JSONEncoder(ensure_ascii=False, default=lambda blob: [len(blob), zlib.crc32(blob)]).encode


def checksum(*values: object) -> int:
    """Returns the checksum of a row: of its table's name and its values. A separator keeps neighbouring values apart;
    values that contain it are written as JSON, which takes three times as long."""
    text = "" if bytes in map(type, values) else _FORMATS[len(values)] % values
    if not text or text.count(_SEPARATOR) >= len(values):
        text = _encode(values)
    return zlib.crc32(text.encode())


def joined_format(table: str) -> str:
    """Returns the format with which SQLite joins the values of a row, as `checksum` does."""
    return table + f"{_SEPARATOR}%s" * len(COLUMNS[table])


def joined_checksum(text: bytes, table: str, length: int) -> int | None:
    """Returns the checksum of a row whose values, with `length` bytes in all, were joined. None if the text is not that
    of the values: one of them contains the separator, or was not joined as a whole."""
    values = len(COLUMNS[table])
    whole = len(text) == len(table) + values + length and text.count(_SEPARATOR.encode()) == values
    return zlib.crc32(text) if whole else None


def text_checksum(place: int, text: str | bytes) -> int:
    """Returns the checksum of a block of text, and of its key. Reading text takes most of a search's checks, and JSON
    would take ten times as long."""
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
    """Makes the functions available that the triggers and the upgrade of a catalogue use."""
    db.create_function("checksum", -1, checksum, deterministic=True)
    db.create_function("text_checksum", 2, text_checksum, deterministic=True)
    db.create_function("no_chunks", 2, lambda layout, version: chunk_digest(layout, version, b""), deterministic=True)
    db.create_aggregate("set_digest", 1, _SetDigest)
    db.create_aggregate("chunk_digest", 8, _ChunkDigest)  # type: ignore[arg-type]


def checksum_of(table: str, alias: str = "") -> str:
    """Returns the SQL expression of the checksum of a row."""
    columns = CHUNK if table == "chunks" else COLUMNS[table]
    return f"checksum('{table}', {', '.join(f'{alias}{column}' for column in columns)})"


def triggers() -> list[str]:
    """Returns the statements that create the triggers."""
    return [statement for table in COLUMNS for statement in _triggers(table)]


def _triggers(table: str) -> list[str]:
    columns = ", ".join(COLUMNS[table])
    keys = (COUNTED[table],) if table in COUNTED else _KEYS[table]
    here = " AND ".join(f"{key} = new.{key}" for key in keys)
    seal = f"UPDATE {table} SET checksum = {checksum_of(table, 'new.')} WHERE {here};"
    damaged = f"SELECT RAISE(ABORT, 'a row of {table} does not match its checksum')"
    made = [
        f"CREATE TRIGGER {table}_checked BEFORE UPDATE OF {columns} ON {table} "
        f"WHEN old.checksum IS NOT {checksum_of(table, 'old.')} BEGIN {damaged}; END",
        f"CREATE TRIGGER {table}_changed AFTER UPDATE OF {columns} ON {table} BEGIN {seal} END",
        f"CREATE TRIGGER {table}_added AFTER INSERT ON {table} BEGIN {seal} {_count(table, '+', 'new')} END",
    ]
    if table in COUNTED:
        made.append(f"CREATE TRIGGER {table}_deleted AFTER DELETE ON {table} BEGIN {_count(table, '-', 'old')} END")
    return made


def _count(table: str, sign: str, row: str) -> str:
    if table not in COUNTED:
        return ""
    return f"UPDATE counters SET value = value {sign} {row}.{COUNTED[table]} WHERE name = '{table}';"


def counters() -> list[str]:
    """Returns the statements that set the counters from the rows that there are."""
    return [
        f"INSERT OR REPLACE INTO counters (name, value) SELECT '{table}', coalesce(sum({key}), 0) FROM {table}"
        for table, key in COUNTED.items()
    ]


class _SetDigest:
    def __init__(self) -> None:
        self._versions: list[int] = []

    def step(self, version: int) -> None:
        self._versions.append(version)

    def finalize(self) -> int:
        return set_digest(self._versions)


class _ChunkDigest:
    """The digest of the chunks of a version, from rows of (layout, version, seq, id, start, end, parent start, parent
    end) in any order."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []

    def step(self, *row: int) -> None:
        self._rows.append(row)

    def finalize(self) -> int | None:
        if not self._rows:
            return None
        layout, version, *_ = self._rows[0]
        numbers = [number for row in sorted(self._rows) for number in row[2:]]
        return chunk_digest(layout, version, struct.pack(f"<{len(numbers)}q", *numbers))
