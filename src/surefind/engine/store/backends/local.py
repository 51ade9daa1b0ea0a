"""The local backend: chunks in the catalogue, indexes in folders beside it, everything in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from surefind.base.abilities import Growing, implements
from surefind.base.access import PathRule
from surefind.base.errors import CorruptIndexError, LockedError, NotBuiltError
from surefind.base.protocols import Index, OnProgress, Retriever, Reuse, Services
from surefind.base.types import Chunk, IntArray
from surefind.engine.store.backend import Contents, Delta, Merged
from surefind.engine.store.backends.view import LocalView
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.chunks import ChunkRows, StoredChunks
from surefind.engine.store.database import set_digest
from surefind.engine.store.indexes import (
    PART,
    TABLE,
    IndexStore,
    Parts,
    StoredPart,
    index_key,
    needed,
    set_of,
    table_key,
)
from surefind.engine.store.lock import merging_lock
from surefind.engine.store.table import ChunkTable, Longs
from surefind.engine.store.versions import Member

Opened = TypeVar("Opened", bound=LocalView)
_EDITED = 1000
"""A table in which at most this many documents have another text is made from the one before."""


class LocalBackend:
    """Implements `Backend` on the local disk."""

    def __init__(
        self,
        catalogue: Catalogue,
        isolated: bool = False,
        once: bool = False,
        elsewhere: Callable[[Retriever], bool] = lambda retriever: False,
    ) -> None:
        """With `isolated`, scores are computed from the chunks that the caller may see alone. `once` is for a process
        that searches once. The indexes of retrievers that are `elsewhere` are not built here."""
        self._once = once
        self._elsewhere = elsewhere
        self._catalogue = catalogue
        self.isolated = isolated
        self.rows = ChunkRows(catalogue.database)
        self.indexes = IndexStore(catalogue.path.parent / "indexes")
        self.parts = Parts(self.indexes)
        self._merging = IndexStore(catalogue.path.parent / "merging")
        """What a merge has made, until a writer takes it in."""
        self._tables: dict[str, ChunkTable] = {}
        """The tables that a writer has read or built: it uses each several times."""
        self._origin: tuple[ChunkTable, ChunkTable, IntArray] | None = None
        """Two tables, and where the chunks of the first are in the second: each index needs it."""

    # ------------------------------------------------------------ writing

    def write(self, deltas: Sequence[Delta]) -> None:
        numbers = {layout: self.rows.layout(layout) for layout in dict.fromkeys(delta.layout for delta in deltas)}
        self.rows.add((numbers[delta.layout], delta.version, delta.chunks) for delta in deltas)

    def uncut(self, contents: int, layout: str) -> list[int]:
        return self.rows.uncut(layout, contents)

    def build(
        self, contents: Contents, layout: str, retrievers: Sequence[Retriever], services: Services, report: OnProgress
    ) -> list[str]:
        table = self.table(contents, layout)
        here = [retriever for retriever in needed(retrievers, services) if not self._elsewhere(retriever)]
        return [
            retriever.name
            for retriever in here
            if self._build_one(contents, layout, table, retriever, services, report)
        ]

    def new_chunks(self, contents: Contents, layout: str, retriever: Retriever, services: Services) -> Sequence[Chunk]:
        table = self._kept(table_key(contents.number, layout), contents)
        if self._elsewhere(retriever) or self.parts.has(index_key(table.fingerprint, retriever, services)):
            return []
        places = np.arange(len(table))
        for _, earlier in self._earlier(layout, retriever, services):
            places = np.flatnonzero(self._origin_of(table, earlier) < 0)
            break
        return StoredChunks(self.rows, self.rows.layout(layout), table, places)

    def table(self, contents: Contents, layout: str) -> ChunkTable:
        """Returns the table of a set, and builds it if there is none or it is damaged."""
        key = table_key(contents.number, layout)
        self.rows.record_index(key, contents.number, layout, TABLE)
        if self.indexes.has(key):
            try:
                return self._kept(key, contents)
            except CorruptIndexError:
                self.indexes.drop(key)
        table = self._edited(contents, layout) or self._built(contents, layout)
        self.indexes.save(key, table, TABLE)
        self._tables[key] = table
        return table

    def _kept(self, key: str, contents: Contents) -> ChunkTable:
        """Reads the table of a set, once."""
        if key not in self._tables:
            self._tables[key] = self._load(key, contents)
        return self._tables[key]

    def _edited(self, contents: Contents, layout: str) -> ChunkTable | None:
        """Returns the table of a new set whose documents are those of an earlier one, a few with another text."""
        if contents.digest is not None:  # the list of a committed set has to be checked as a whole
            return None
        versions = self._catalogue.versions
        for earlier, table in self._tables_before(contents, layout):
            new = versions.only_in(contents.number, earlier)
            gone = versions.only_in(earlier, contents.number)
            if not len(new) == len(gone) <= _EDITED:
                return None
            rows = self.rows.rows_of(self.rows.layout(layout), new)
            return table.edited(versions.members_of(gone), versions.members_of(new), rows)
        return None

    def _built(self, contents: Contents, layout: str) -> ChunkTable:
        number, members = self.rows.layout(layout), contents.members()
        rows = self._chunk_rows(number, contents, layout, members)
        return ChunkTable.build(layout, members, rows, self.rows.contexts(number, members))

    def _tables_before(self, contents: Contents, layout: str) -> Iterator[tuple[int, ChunkTable]]:
        """Yields the numbers and tables of other sets in this layout, newest first. Damaged ones are skipped."""
        for _, earlier, cut, spec in reversed(self.rows.indexes()):
            if cut == layout and spec == TABLE and earlier != contents.number:
                with contextlib.suppress(CorruptIndexError):
                    yield earlier, self._table_of(earlier, layout)

    def _chunk_rows(self, number: int, contents: Contents, layout: str, members: Sequence[Member]) -> Longs:
        """Returns a row for every chunk of a set. Those of versions that an earlier table has are taken from there."""
        versions = np.array([member.version for member in members], np.int64)
        for _, table in self._tables_before(contents, layout):
            new = versions[~np.isin(versions, table.versions)]
            if not table.altered and len(new) <= len(versions) // 2:
                return table.rows_with(versions, self.rows.rows_of(number, new.tolist()))
        return self.rows.rows(number, contents.number)

    def _load(self, key: str, contents: Contents) -> ChunkTable:
        """Reads the table of a set. Raises `CorruptIndexError` if it is damaged, or has other documents: it may be from
        a backup, or of a catalogue that was removed."""
        table = self.indexes.read(key, ChunkTable.load, whole=True)
        if contents.digest not in (None, set_digest(table.versions.tolist())):
            raise CorruptIndexError(f"The table in {self.indexes.folder / key} has other documents than the catalogue.")
        return table

    def _table_of(self, number: int, layout: str) -> ChunkTable:
        """Reads the table of an earlier set. Raises `CorruptIndexError`."""
        contents = Contents(number, list, self._catalogue.digest(number))
        return self._kept(table_key(number, layout), contents)

    def _build_one(
        self,
        contents: Contents,
        layout: str,
        table: ChunkTable,
        retriever: Retriever,
        services: Services,
        report: OnProgress,
    ) -> bool:
        """Builds the index of one retriever unless a sound one exists. Returns whether it was built."""
        key = index_key(table.fingerprint, retriever, services)
        spec = retriever.index_spec(services)
        built = not self.parts.sound(key)
        if built:
            what = f"Indexing {retriever.name}"
            report(what, 0, len(table))
            progress = partial(report, what)
            number = self.rows.layout(layout)
            chunks_at = partial(StoredChunks, self.rows, number, table)
            if implements(retriever, Growing):
                pieces = self._pieces(layout, table, retriever, services)
                self.parts.grow(key, len(table), pieces, chunks_at, retriever, services, progress)
            else:
                reuse = self._reuse(layout, table, retriever, services)
                made = retriever.build(chunks_at(np.arange(len(table))), services, reuse, progress)
                self.indexes.save(key, made, spec)
            report(what, len(table), len(table))
        for part in self.parts.keys(key):
            self.rows.record_index(part, contents.number, layout, PART)
        self.rows.record_index(key, contents.number, layout, spec)
        return built

    def crowded(
        self, contents: int, layout: str, retrievers: Sequence[Retriever], services: Services
    ) -> list[Retriever]:
        keys = {spec: key for key, *at, spec in self.rows.indexes() if at == [contents, layout]}
        growing = [
            retriever
            for retriever in needed(retrievers, services)
            if implements(retriever, Growing) and retriever.index_spec(services) in keys
        ]
        return [retriever for retriever in growing if self.parts.crowded(keys[retriever.index_spec(services)])]

    def merge(
        self, contents: Contents, layout: str, retriever: Retriever, services: Services, report: OnProgress
    ) -> Merged | None:
        if not implements(retriever, Growing):
            return None
        self._merging.clear()
        table = self._kept(table_key(contents.number, layout), contents)
        chunks_at = partial(StoredChunks, self.rows, self.rows.layout(layout), table)
        key = index_key(table.fingerprint, retriever, services)
        progress = partial(report, f"Merging {retriever.name}")
        progress(0, len(table))
        self.parts.merge(key, len(table), chunks_at, retriever, services, progress, self._merging)
        progress(len(table), len(table))
        return Merged(key, contents.number, retriever)

    def take_merged(self, contents: Contents, layout: str, merged: Merged, services: Services) -> bool:
        taken: list[str] = []
        with contextlib.suppress(CorruptIndexError):  # the next sync makes what is damaged again
            table = self.table(contents, layout)
            places = self._table_of(merged.contents, layout).origin(table)
            key, spec = index_key(table.fingerprint, merged.retriever, services), merged.retriever.index_spec(services)
            taken = self.parts.take_merged(merged.key, key, places, spec, self._merging)
        for part in taken:
            self.rows.record_index(part, contents.number, layout, PART)
        self._merging.clear()
        return bool(taken)

    def _earlier(self, layout: str, retriever: Retriever, services: Services) -> Iterator[tuple[str, ChunkTable]]:
        """Yields the keys and tables of indexes with the same spec and layout, newest first. Damaged ones are skipped:
        reuse only saves time, and building from nothing gives the same index. So are those of interrupted writers,
        whose sets had numbers that were used again."""
        wanted = retriever.index_spec(services)
        for key, number, cut, spec in reversed(self.rows.indexes()):
            if cut == layout and spec == wanted:
                with contextlib.suppress(CorruptIndexError):
                    table = self._table_of(number, layout)
                    if key == index_key(table.fingerprint, retriever, services) and self.indexes.sound(key):
                        yield key, table

    def _pieces(self, layout: str, table: ChunkTable, retriever: Retriever, services: Services) -> list[StoredPart]:
        """Returns the parts of the newest index with the same spec and layout."""
        for key, earlier in self._earlier(layout, retriever, services):
            with contextlib.suppress(CorruptIndexError):
                return self.parts.left(key, len(earlier), self._origin_of(table, earlier))
        return []

    def _origin_of(self, table: ChunkTable, earlier: ChunkTable) -> IntArray:
        """Returns the place of each chunk in an earlier table, or -1."""
        if self._origin is None or self._origin[0] is not table or self._origin[1] is not earlier:
            self._origin = (table, earlier, table.origin(earlier))
        return self._origin[2]

    def _reuse(self, layout: str, table: ChunkTable, retriever: Retriever, services: Services) -> Reuse | None:
        """Returns the newest index with the same spec and layout, and the place of each chunk in it."""
        for key, earlier in self._earlier(layout, retriever, services):
            with contextlib.suppress(CorruptIndexError):
                if not self.indexes.intact(key):
                    continue
                index: Index = self.indexes.load(key, retriever, services)
                if len(index) == len(earlier):
                    return Reuse(index, table.origin(earlier))
        return None

    def discard(self, after: int, gone: Sequence[int]) -> None:
        """Deletes the leftovers of an interrupted writer. Sets are found by the names of their folders, since they may
        belong to a catalogue that no longer exists."""
        with self._catalogue.transaction():
            self.rows.delete([*gone, *self.rows.orphans()])
            self.rows.forget_later_indexes(after)
        self._tables.clear()
        self._origin = None
        for key in self.indexes.list_keys():
            if (set_of(key) or 0) > after or self.indexes.is_unfinished(key):
                self.indexes.drop(key)
        if self._merging.folder.exists():
            with contextlib.suppress(LockedError), merging_lock(self._catalogue.path.parent):
                self._merging.clear()

    def sweep(self, keep: Collection[int], gone: Sequence[int]) -> None:
        with self._catalogue.transaction():
            self.rows.delete(gone)
            self.rows.forget_indexes(keep)
        used = {key for key, *_ in self.rows.indexes()}
        for key in self.indexes.list_keys():
            if key not in used:
                self.indexes.drop(key)

    # ------------------------------------------------------------ reading

    def has(self, contents: int, layout: str) -> bool:
        return self.indexes.has(table_key(contents, layout))

    def open(self, contents: Contents, layout: str, services: Services, rules: Sequence[PathRule]) -> LocalView:
        return self.open_as(LocalView, contents, layout, services, rules)

    def open_as(
        self, kind: type[Opened], contents: Contents, layout: str, services: Services, rules: Sequence[PathRule]
    ) -> Opened:
        """Opens a set as a view of this class."""
        key = table_key(contents.number, layout)
        number = self.rows.layout_id(layout)
        if number is None or not self.indexes.has(key):
            raise NotBuiltError(f"The documents are not cut by {layout} yet. Cut and index them with: surefind sync.")
        try:
            table = self._tables.get(key) or self._load(key, contents)
        except CorruptIndexError as error:
            raise NotBuiltError(f"{error} Rebuild it with: surefind sync.") from error
        return kind(self.rows, self.parts, table, number, services, rules, self.isolated, self._once)

    def folders(self, contents: int) -> list[Path]:
        """Returns the folders that a set needs, in all layouts. What `compact` made is for the next set."""
        keys = {key for key, number, _, spec in self.rows.indexes() if number == contents and spec != PART}
        used = {part for key in keys for part in (key, *self.parts.keys(key)) if self.indexes.has(part)}
        return [self.indexes.folder / key for key in sorted(used)]

    def sizes(self, contents: int, layout: str) -> dict[str, int]:
        return {
            spec: self.parts.size(key)
            for key, number, cut, spec in self.rows.indexes()
            if number == contents and cut == layout and spec not in (TABLE, PART)
        }
