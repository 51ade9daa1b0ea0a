"""The chunks in the catalogue: for each layout, where each version was cut, and the context of each chunk."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from surefind.store._database import Database
from surefind.store.rows import Entry, Member
from surefind.store.versions import LIVE, Versions, batched
from surefind.types import Chunk, Place

_MOST = 500
"""The most chunks that one statement reads."""
Row = tuple[int, int, int, int, int, int, int]
"""(version, seq, id, start, end, start and end of the passage that a search returns)."""


class ChunkRows:
    """Reads and writes chunks, and records which indexes belong to which set."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._versions = Versions(database)

    @property
    def _db(self) -> sqlite3.Connection:
        return self._database.db

    def layout(self, spec: str) -> int:
        """Returns the number of a layout; a new layout gets the next number."""
        self._db.execute("INSERT OR IGNORE INTO layouts (spec) VALUES (?)", (spec,))
        return int(self._db.execute("SELECT id FROM layouts WHERE spec = ?", (spec,)).fetchone()[0])

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

    def add(self, layout: int, version: int, chunks: Sequence[Chunk]) -> None:
        """Stores the chunks of a version."""
        self._db.execute("INSERT OR IGNORE INTO chunked VALUES (?, ?)", (layout, version))
        self._db.executemany(
            "INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    layout, version, seq, c.number, c.start, c.end, json.dumps(c.headings, ensure_ascii=False),
                    c.context, *(c.parent or (None, None)),
                )
                for seq, c in enumerate(chunks)
            ),
        )  # fmt: skip

    def delete(self, versions: Iterable[int]) -> None:
        """Deletes the chunks of these versions in all layouts."""
        lost = [(version,) for version in versions]
        layouts = [id for (id,) in self._db.execute("SELECT id FROM layouts")]
        for layout in layouts:  # the primary key of both tables begins with layout and version
            self._db.executemany(f"DELETE FROM chunks WHERE layout = {layout} AND version = ?", lost)
            self._db.executemany(f"DELETE FROM chunked WHERE layout = {layout} AND version = ?", lost)

    def rows(self, layout: int, contents: int) -> list[Row]:
        """Returns a row for every chunk of a set, in order of place."""
        return self._db.execute(
            "SELECT c.version, c.seq, c.id, c.start, c.end, coalesce(c.parent_start, c.start), "
            "coalesce(c.parent_end, c.end) FROM members m JOIN versions v ON v.row = m.version "
            f"JOIN chunks c ON c.layout = :l AND c.version = v.row WHERE {LIVE} ORDER BY v.id, v.row, c.seq",
            {"l": layout, "s": contents},
        ).fetchall()

    def contexts(self, layout: int, members: Sequence[Member]) -> Iterator[str]:
        """Yields the context of every chunk, in order of place."""
        for member in members:
            rows = self._db.execute(
                "SELECT context FROM chunks WHERE layout = ? AND version = ? ORDER BY seq", (layout, member.version)
            )
            yield from (context for (context,) in rows)

    def every(self, layout: int, versions: Sequence[int]) -> Iterator[Chunk]:
        """Yields every chunk of these versions with its text, with a few statements for hundreds of versions. A
        document's text is read once: once per chunk would take time quadratic in its length."""
        for some in batched(versions, _MOST):
            marks = ",".join("?" * len(some))
            found = self._db.execute(f"SELECT row, id, title, length FROM versions WHERE row IN ({marks})", some)
            about = {row: (id, title, length) for row, id, title, length in found}
            texts = self._versions.texts([(version, 0, about[version][2]) for version in some])
            cut: dict[int, list[tuple[Any, ...]]] = {version: [] for version in some}
            rows = self._db.execute(
                "SELECT version, start, end, headings, context FROM chunks "
                f"WHERE layout = ? AND version IN ({marks}) ORDER BY version, seq",
                (layout, *some),
            )
            for version, *row in rows:
                cut[version].append(tuple(row))
            for version, text in zip(some, texts, strict=True):
                id, title, _ = about[version]
                for start, end, headings, context in cut[version]:
                    listed = tuple(json.loads(headings)) if headings != "[]" else ()
                    yield Chunk(id, start, end, text[start:end], listed, context, title=title)

    def entries(self, layout: int, wanted: Sequence[tuple[int, int]], returned: bool = False) -> list[Entry]:
        """Reads chunks by (version, seq), with the facts of their documents; with `returned`, reads the passages that a
        search returns in their place. It uses two statements for up to 500 chunks, since threads wait for each other
        between statements. A chunk that a writer has deleted since is missing from the list."""
        start, end = "c.start", "c.end"
        if returned:
            start, end = "coalesce(c.parent_start, c.start)", "coalesce(c.parent_end, c.end)"
        rows: dict[tuple[int, int], tuple[Any, ...]] = {}
        for at in range(0, len(wanted), _MOST):
            some = wanted[at : at + _MOST]
            found = self._db.execute(
                f"WITH wanted (version, seq) AS (VALUES {','.join(['(?,?)'] * len(some))}) "
                f"SELECT c.version, c.seq, v.id, {start}, {end}, c.headings, c.context, v.title, v.metadata, v.places "
                "FROM wanted w CROSS JOIN chunks c ON c.layout = ? AND c.version = w.version AND c.seq = w.seq "
                "JOIN versions v ON v.row = c.version",
                (*chain.from_iterable(some), layout),
            )
            rows.update({(version, seq): (version, *row) for version, seq, *row in found})
        there = [rows[pair] for pair in wanted if pair in rows]
        texts = self._versions.texts([(version, first, last) for version, _, first, last, *_ in there])
        return [_entry(row, text) for row, text in zip(there, texts, strict=True)]

    # ------------------------------------------------------------ which indexes belong to which set

    def record_index(self, key: str, contents: int, layout: str, spec: str) -> None:
        """Records that an index belongs to a set."""
        self._db.execute("INSERT OR REPLACE INTO indexes VALUES (?, ?, ?, ?)", (key, contents, layout, spec))

    def indexes(self) -> list[tuple[str, int, str, str]]:
        """Returns (key, set, layout spec, index spec) of every index, newest set last."""
        return self._db.execute("SELECT key, contents, layout, spec FROM indexes ORDER BY contents").fetchall()

    def forget_indexes(self, keep: Iterable[int]) -> None:
        """Deletes the records of indexes whose sets are not kept."""
        listed = ",".join(str(int(contents)) for contents in keep)
        self._db.execute(f"DELETE FROM indexes WHERE contents NOT IN ({listed})")


def _entry(row: tuple[Any, ...], text: str) -> Entry:
    version, id, start, end, headings, context, title, metadata, places = row
    return Entry(
        id, start, end, text, tuple(json.loads(headings)), context, title, json.loads(metadata), version,
        tuple(Place(at, name) for at, name in json.loads(places)) if places != "[]" else (),
    )  # fmt: skip
