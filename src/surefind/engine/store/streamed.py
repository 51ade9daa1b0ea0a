"""The chunks of a table as a sequence that reads them from the catalogue when they are used, in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from surefind.base.types import Chunk
from surefind.engine.store.chunks import ChunkRows
from surefind.engine.store.table import ChunkTable, Longs

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
