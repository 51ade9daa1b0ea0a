"""The chunks in the catalogue: for each layout, where each version was cut, and the context of each chunk.

The chunks of a table as a sequence that reads them from the catalogue when they are used, in blocks.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from surefind.base.errors import StoreError
from surefind.base.text.blocks import line_mark, line_of
from surefind.base.types import Chunk, Place
from surefind.engine.store.database import CHUNK, VERSION, CatalogueFile, checksum, chunk_digest
from surefind.engine.store.table import ChunkTable, Longs
from surefind.engine.store.versions import LIVE, ChunkEntry, Member, Versions, batched

_CHUNKS_A_STATEMENT = 500
_ROWS_AT_ONCE = 100_000
"""The rows that are Python objects at a time."""
Numbers = NDArray[np.int64]
"""A row for each chunk: (version, seq, id, start, end, start and end of the passage that a search returns)."""
_CHUNK = ", ".join(f"c.{column}" for column in (*CHUNK, "checksum"))
_NUMBERS = "c.version, c.seq, c.id, c.start, c.end, coalesce(c.parent_start, c.start), coalesce(c.parent_end, c.end)"
_VERSION = ", ".join(f"v.{column}" for column in (*VERSION, "digest"))


class ChunkRows:
    """Reads and writes chunks, and records which indexes belong to which set."""

    def __init__(self, database: CatalogueFile) -> None:
        self._database = database
        self._versions = Versions(database)

    @property
    def _db(self) -> sqlite3.Connection:
        return self._database.db

    def layout(self, spec: str) -> int:
        """Returns the number of a layout; a new layout gets the next number."""
        known = self.layout_id(spec)
        if known is None:
            known = int(self._db.execute("INSERT INTO layouts (spec) VALUES (?)", (spec,)).lastrowid or 0)
        return known

    def layout_id(self, spec: str) -> int | None:
        """Returns the number of a layout; None if it has none."""
        row = self._db.execute("SELECT id FROM layouts WHERE spec = ?", (spec,)).fetchone()
        return int(row[0]) if row else None

    def uncut(self, layout: str, contents: int) -> list[int]:
        """Returns the versions of a set that have not been cut in this layout yet."""
        rows = self._db.execute(
            f"SELECT version FROM members WHERE {LIVE} AND version NOT IN "
            "(SELECT version FROM chunked WHERE layout = (SELECT id FROM layouts WHERE spec = :l)) ORDER BY version",
            {"s": contents, "l": layout},
        )
        return [row for (row,) in rows]

    def add(self, cut: Iterable[tuple[int, int, Sequence[Chunk]]]) -> None:
        """Stores chunks, given as (layout, version, chunks of the version)."""
        rows: list[tuple[Any, ...]] = []
        digests = []
        for layout, version, chunks in cut:
            numbers: list[int] = []
            for seq, c in enumerate(chunks):
                headings = json.dumps(c.headings, ensure_ascii=False) if c.headings else "[]"
                parent = c.parent or (None, None)
                row = layout, version, seq, c.number, c.start, c.end, headings, c.context, *parent, c.language
                rows.append((*row, checksum(*row)))
                numbers += seq, c.number, c.start, c.end, *(c.parent or (c.start, c.end))
            digests.append((layout, version, chunk_digest(layout, version, struct.pack(f"<{len(numbers)}q", *numbers))))
        self._db.executemany("INSERT OR REPLACE INTO chunked VALUES (?, ?, ?)", digests)
        self._db.executemany(f"INSERT OR REPLACE INTO chunks VALUES ({','.join('?' * len(CHUNK))}, ?)", rows)

    def delete(self, versions: Iterable[int]) -> None:
        """Deletes the chunks of these versions in all layouts."""
        lost = [(version,) for version in versions]
        layouts = [row_id for (row_id,) in self._db.execute("SELECT id FROM layouts")]
        for layout in layouts:  # the primary key of both tables begins with layout and version
            self._db.executemany(f"DELETE FROM chunks WHERE layout = {layout} AND version = ?", lost)
            self._db.executemany(f"DELETE FROM chunked WHERE layout = {layout} AND version = ?", lost)

    def orphans(self) -> list[int]:
        """Returns the versions that have chunks and do not exist any more: a writer was stopped while it deleted."""
        rows = self._db.execute("SELECT DISTINCT version FROM chunked WHERE version NOT IN (SELECT row FROM versions)")
        return [version for (version,) in rows]

    def rows(self, layout: int, contents: int) -> Numbers:
        """Returns a row for every chunk of a set, in order of place. Raises `DamagedError` if the chunks of a version
        are not those that were stored."""
        found = self._db.execute(
            f"SELECT {_NUMBERS} FROM members m JOIN versions v ON v.row = m.version "
            f"JOIN chunks c ON c.layout = :l AND c.version = v.row WHERE {LIVE} ORDER BY v.id, v.row, c.seq",
            {"l": layout, "s": contents},
        )
        rows = iter(found)
        parts = [self._numbers(some) for some in iter(lambda: list(islice(rows, _ROWS_AT_ONCE)), [])]
        made = np.concatenate([np.zeros((0, 7), np.int64), *parts])
        self._check_whole(layout, self._digests(layout, contents), made)
        return made

    def rows_of(self, layout: int, versions: Sequence[int]) -> Numbers:
        """Returns a row for every chunk of these versions, in their order. Raises `DamagedError` as `rows` does."""
        made = np.zeros((0, 7), np.int64)
        digests: dict[int, int] = {}
        for few in batched(versions, _CHUNKS_A_STATEMENT):
            marks = ",".join("?" * len(few))
            here = f"layout = ? AND version IN ({marks})"
            rows = self._db.execute(
                f"SELECT {_NUMBERS} FROM chunks c WHERE {here} ORDER BY version, seq", (layout, *few)
            )
            made = np.concatenate([made, self._numbers(rows.fetchall())])
            digests |= dict(self._db.execute(f"SELECT version, digest FROM chunked WHERE {here}", (layout, *few)))
        self._check_whole(layout, digests, made)
        return made

    def _numbers(self, rows: Sequence[Any]) -> Numbers:
        try:
            return np.array(rows, np.int64).reshape(-1, 7)
        except (ValueError, TypeError, OverflowError):
            raise self._database.damaged("a chunk has no numbers for its place") from None

    def _digests(self, layout: int, contents: int) -> dict[int, int]:
        rows = self._db.execute(
            "SELECT k.version, k.digest FROM members m JOIN chunked k ON k.layout = :l AND k.version = m.version "
            f"WHERE {LIVE}",
            {"l": layout, "s": contents},
        )
        return dict(rows)

    def _check_whole(self, layout: int, digests: Mapping[int, int], rows: Numbers) -> None:
        ends = [*(np.flatnonzero(np.diff(rows[:, 0])) + 1).tolist(), len(rows)] if len(rows) else []
        numbers = np.ascontiguousarray(rows[:, 1:], "<i8")
        digests_now = {version: chunk_digest(layout, version, b"") for version in digests}
        for start, end in zip([0, *ends], ends, strict=False):
            version = int(rows[start, 0])
            digests_now[version] = chunk_digest(layout, version, numbers[start:end].tobytes())
        for version, digest in digests_now.items():
            if digests.get(version) != digest:
                raise self.damaged(version)

    def damaged(self, version: int) -> StoreError:
        """Returns the error for a version whose chunks are missing or damaged."""
        row = self._db.execute("SELECT id FROM versions WHERE row = ?", (version,)).fetchone()
        name = repr(row[0]) if row else f"version {version}"
        return self._database.damaged(f"the chunks of {name} do not match their checksum")

    def _checked(self, row: Sequence[Any]) -> Sequence[Any]:
        """Returns a row of `chunks`, given with its checksum. Raises `DamagedError` if it does not match."""
        if checksum(*row[:-1]) != row[-1]:
            raise self.damaged(row[1])
        return row

    def contexts(self, layout: int, members: Sequence[Member]) -> Iterator[str]:
        """Yields the context of every chunk, in order of place."""
        for member in members:
            rows = self._db.execute(
                f"SELECT {_CHUNK} FROM chunks c WHERE layout = ? AND version = ? ORDER BY seq", (layout, member.version)
            )
            yield from (self._checked(row)[7] for row in rows)

    def every(self, layout: int, versions: Sequence[int]) -> Iterator[tuple[int, int, Chunk]]:
        """Yields (version, seq, chunk) of every chunk of these versions, with few statements for hundreds of versions.
        A document's text is read once: once per chunk would take time quadratic in its length."""
        for some in batched(versions, _CHUNKS_A_STATEMENT):
            marks = ",".join("?" * len(some))
            found = self._db.execute(f"SELECT row, id, title, length FROM versions WHERE row IN ({marks})", some)
            about = {row: (document_id, title, length) for row, document_id, title, length in found}
            texts = self._versions.texts([(version, 0, about[version][2]) for version in some])
            cut: dict[int, list[tuple[Any, ...]]] = {version: [] for version in some}
            rows = self._db.execute(
                f"SELECT {_CHUNK} FROM chunks c WHERE layout = ? AND version IN ({marks}) ORDER BY version, seq",
                (layout, *some),
            )
            for row in map(self._checked, rows):
                cut[row[1]].append((row[2], *row[4:8], row[10]))
            for version, text in zip(some, texts, strict=True):
                document_id, title, _ = about[version]
                for seq, start, end, headings, context, language in cut[version]:
                    listed = tuple(json.loads(headings)) if headings != "[]" else ()
                    span = text[start:end]
                    yield version, seq, Chunk(document_id, start, end, span, listed, context, None, title, language)

    def entries(
        self, layout: int, wanted: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]] | None = None
    ) -> list[ChunkEntry]:
        """Reads chunks by (version, seq), with the facts of their documents; with `spans`, reads these spans of the
        documents in place of the chunks, and their lines. It uses two statements for up to 500 chunks, since threads
        wait for each other between statements. A chunk that a writer has deleted since is missing from the list."""
        rows: dict[tuple[int, int], ChunkEntry] = {}
        for at in range(0, len(wanted), _CHUNKS_A_STATEMENT):
            some = wanted[at : at + _CHUNKS_A_STATEMENT]
            found = self._db.execute(
                f"WITH wanted (version, seq) AS (VALUES {','.join(['(?,?)'] * len(some))}) "
                f"SELECT {_CHUNK}, {_VERSION} "
                "FROM wanted w CROSS JOIN chunks c ON c.layout = ? AND c.version = w.version AND c.seq = w.seq "
                "JOIN versions v ON v.row = c.version",
                (*chain.from_iterable(some), layout),
            )
            for row in found:
                chunk, version = self._checked(row[: len(CHUNK) + 1]), row[len(CHUNK) + 1 :]
                rows[chunk[1], chunk[2]] = _found(chunk, self._versions.checked(version))
        lost = next((version for version, seq in wanted if (version, seq) not in rows), None)
        if lost is not None and self._is_held(lost):
            raise self.damaged(lost)
        there = [rows[pair] for pair in wanted if pair in rows]
        chosen = [(entry.start, entry.end) for entry in there]
        if spans is not None:
            chosen = [span for pair, span in zip(wanted, spans, strict=True) if pair in rows]
        starts = [
            _line_start(entry, start) if spans else start for entry, (start, _) in zip(there, chosen, strict=True)
        ]
        read = [(entry.version, at, end) for entry, at, (_, end) in zip(there, starts, chosen, strict=True)]
        texts = self._versions.texts(read)
        return [_with_text(*parts) for parts in zip(there, chosen, texts, starts, strict=True)]

    def source_names(self) -> dict[int, str]:
        """Returns the name of every source, by its number."""
        return dict(self._db.execute("SELECT id, name FROM sources"))

    def _is_held(self, version: int) -> bool:
        """Returns whether a set of documents holds a version, so that its chunks must exist."""
        return self._db.execute("SELECT 1 FROM members WHERE version = ?", (version,)).fetchone() is not None

    # ------------------------------------------------------------ which indexes belong to which set

    def record_index(self, key: str, contents: int, layout: str, spec: str) -> None:
        """Records that an index belongs to a set."""
        row = (key, contents, layout, spec)
        self._db.execute("INSERT OR REPLACE INTO indexes (key, contents, layout, spec) VALUES (?, ?, ?, ?)", row)

    def indexes(self) -> list[tuple[str, int, str, str]]:
        """Returns (key, set, layout spec, index spec) of every index, newest set last."""
        return list(self._db.execute("SELECT key, contents, layout, spec FROM indexes ORDER BY contents"))

    def forget_later_indexes(self, contents: int) -> None:
        """Deletes the records of indexes of sets after this one, which was the last to be committed."""
        self._db.execute("DELETE FROM indexes WHERE contents > ?", (contents,))

    def forget_indexes(self, keep: Iterable[int]) -> None:
        """Deletes the records of indexes whose sets are not kept."""
        listed = ",".join(str(int(contents)) for contents in keep)
        self._db.execute(f"DELETE FROM indexes WHERE contents NOT IN ({listed})")


def _found(chunk: Sequence[Any], version: Sequence[Any]) -> ChunkEntry:
    """Joins a row of `chunks` and its row of `versions`; the text is still missing."""
    _, number, _, _, start, end, headings, context, *_ = chunk
    _, document_id, source, path, *_, title, _, metadata, _, places, _, _, _, _ = version
    listed = tuple(Place(*place) for place in json.loads(places)) if places != "[]" else ()
    above = tuple(json.loads(headings)) if headings != "[]" else ()
    about = json.loads(metadata) if metadata != "{}" else {}
    return ChunkEntry(document_id, start, end, "", above, context, title, about, number, listed, source, path)


def _line_start(entry: ChunkEntry, start: int) -> int:
    """The character from which the text must be read so that lines can be counted."""
    mark = line_mark(entry.places, start)
    return mark.start if mark else start


def _with_text(entry: ChunkEntry, span: tuple[int, int], text: str, at: int) -> ChunkEntry:
    """Adds the text of a span, which was read from `at` on, and its first and last line."""
    start, end = span
    first = line_of(entry.places, start, text, at)
    last = line_of(entry.places, max(start, end - 1), text, at) if first else 0
    return entry._replace(start=start, end=end, text=text[start - at :], lines=(first, last) if last else None)


_BLOCK = 2_048
"""The chunks that are read at a time, or all chunks of the last document among them: no document is read twice."""


class StoredChunks(Sequence[Chunk]):
    """The chunks at some places of a table, in order. Only the block that was used last is in memory."""

    def __init__(self, rows: ChunkRows, layout: int, table: ChunkTable, places: Longs) -> None:
        self._rows = rows
        self._layout = layout
        self._table = table
        self._places = places
        self._ends = _ends(table.rows[0, places])
        self._number = -1
        self._block: list[Chunk] = []

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Chunk]:
        for number in range(len(self._ends)):
            yield from self._read(number)

    @overload
    def __getitem__(self, at: int) -> Chunk: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Chunk]: ...

    def __getitem__(self, at: int | slice) -> Chunk | Sequence[Chunk]:
        if isinstance(at, slice):
            return StoredChunks(self._rows, self._layout, self._table, self._places[at])
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        at %= len(self)
        number = int(np.searchsorted(self._ends, at, "right"))
        if number != self._number:
            self._block, self._number = self._read(number), number
        return self._block[at - self._start(number)]

    def _start(self, number: int) -> int:
        return int(self._ends[number - 1]) if number else 0

    def _read(self, number: int) -> list[Chunk]:
        places = self._places[self._start(number) : self._ends[number]]
        wanted = list(map(tuple, self._table.rows[:2, places].T.tolist()))
        versions = list(dict.fromkeys(version for version, _ in wanted))
        chunks = {(version, seq): chunk for version, seq, chunk in self._rows.every(self._layout, versions)}
        lost = next((version for version, seq in wanted if (version, seq) not in chunks), None)
        if lost is not None:
            raise self._rows.damaged(lost)
        return [chunks[pair] for pair in wanted]


def _ends(versions: Longs) -> Longs:
    """Where each block ends, given the version of each chunk: at the first new version after `_BLOCK` more chunks."""
    bounds = np.append(np.flatnonzero(np.diff(versions)) + 1, len(versions))
    steps = np.arange(_BLOCK, len(versions) + _BLOCK, _BLOCK)
    ends: Longs = np.unique(bounds[np.searchsorted(bounds, steps).clip(max=len(bounds) - 1)])
    return ends[ends > 0]
