"""The local backend's view of one set of documents in one layout: a table of chunks, indexes, masks.

A view never changes. Indexes are opened and masks computed when they are first needed, and then kept.

Searches an index as if it held only the chunks that the caller may see: `isolation = "statistics"`.

BM25 and TF-IDF weigh words by how many chunks contain them. Over all chunks, these weights reveal which words occur in
documents that the caller may not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from surefind.base.abilities import StatisticalIndex, WarmIndex, WordedIndex, declared, implements
from surefind.base.access import PATH, Access, PathRule, access_lists
from surefind.base.errors import (
    REPAIR,
    CorruptIndexError,
    NotBuiltError,
    PassageError,
    SpecError,
    StoreError,
    UsageError,
    choices,
)
from surefind.base.protocols import Index, Retriever, ScoringIndex, Services, VectorIndex
from surefind.base.running import BoundedCache
from surefind.base.text.blocks import location
from surefind.base.text.languages import LANGUAGE
from surefind.base.types import (
    EVERY,
    PAD,
    BoolArray,
    Chunk,
    FloatArray,
    IdArray,
    IntArray,
    Mask,
    Query,
    Rankings,
    Wording,
)
from surefind.engine.store.backend import Passage, Spans, View
from surefind.engine.store.chunks import ChunkRows
from surefind.engine.store.indexes import Parts, index_key, innermost, needed
from surefind.engine.store.table import ChunkTable, Facet, facets_of
from surefind.engine.store.versions import ChunkEntry

_MAX_PARTS = 8
"""How many parts of an index, each for another mask, stay in memory."""


class Isolated:
    """An index that is searched in parts, one for each mask. A part is made at its first search and then kept."""

    def __init__(self, index: StatisticalIndex) -> None:
        self._index = index
        self._parts: BoundedCache[bytes, ScoringIndex] = BoundedCache(_MAX_PARTS)

    def __len__(self) -> int:
        return len(self._index)

    def save(self, folder: Path) -> None:
        self._index.save(folder)

    def warm(self) -> None:
        if implements(self._index, WarmIndex):
            self._index.warm()

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        if not allow.count:  # everything is allowed, or nothing
            return self._index.search(retriever, queries, k, allow)
        rankings = self._part(retriever, allow).search(retriever, queries, k, EVERY)
        places = allow.places(len(self))
        return replace(rankings, ids=np.where(rankings.ids == PAD, PAD, places[np.maximum(rankings.ids, 0)]))

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        if allow.bits is None or not allow.count:
            return self._index.score(retriever, queries, ids, allow)
        numbers = np.where(allow.bits, np.cumsum(allow.bits) - 1, PAD)
        inside = np.where(ids == PAD, PAD, numbers[np.maximum(ids, 0)])
        return self._part(retriever, allow).score(retriever, queries, inside, EVERY)

    def wording(self, retriever: Any, queries: Sequence[Query], allow: Mask) -> list[Wording] | None:
        index, mask = (self._part(retriever, allow), EVERY) if allow.count else (self._index, allow)
        return index.wording(retriever, queries, mask) if implements(index, WordedIndex) else None

    def _part(self, retriever: Any, allow: Mask) -> ScoringIndex:
        bits = allow.bits
        assert bits is not None
        return self._parts.get_or_make(allow.key, lambda: self._index.only(bits, retriever))


_MAX_CACHED = 64
"""How many masks, facets of callers, and retrievers with different parameters stay in memory."""

Clauses = tuple[tuple[str, ...], ...]
"""Access lists of a document: a caller must be in a group of each list."""


class LocalView:
    """Implements `View` on a table and on indexes in folders."""

    def __init__(
        self,
        rows: ChunkRows,
        indexes: Parts,
        table: ChunkTable,
        layout: int,
        services: Services,
        rules: Sequence[PathRule],
        isolated: bool = False,
        once: bool = False,
    ) -> None:
        """With `once`, nothing is loaded that pays off from the second search on only."""
        self.table = table
        self._once = once
        self.layout = table.layout
        self._rows = rows
        self._indexes = indexes
        self._layout = layout
        self._services = services
        self._rules = rules
        self.isolated = isolated
        self._loaded: dict[str, Index] = {}
        self._opened: BoundedCache[Retriever, Index] = BoundedCache(_MAX_CACHED)
        self._masks: BoundedCache[Access, tuple[Mask, int]] = BoundedCache(_MAX_CACHED)
        self._facets: BoundedCache[tuple[Access, tuple[str, ...]], tuple[Facet, ...]] = BoundedCache(_MAX_CACHED)
        self._spans: Spans | None = None
        self._sources: dict[int, str] | None = None
        self._clauses: list[tuple[Clauses, IntArray]] | None = None
        self._restrictions()  # computed now, while no search waits for it

    @property
    def fingerprint(self) -> str:
        return self.table.fingerprint

    @property
    def sketch(self) -> tuple[int, ...]:
        return self.table.sketch

    def __len__(self) -> int:
        return len(self.table)

    # ------------------------------------------------------------ searching

    def search(self, retriever: Retriever, queries: Sequence[Query], k: int, access: Access) -> Rankings:
        mask = self.mask(access)
        return self._as_ids(self.index(retriever).search(retriever, queries, k, mask))

    def score(self, retriever: Retriever, queries: Sequence[Query], ids: IdArray, access: Access) -> FloatArray:
        index = self.index(retriever)
        if not implements(index, ScoringIndex):
            raise SpecError(f"{retriever} cannot score single passages. Remove missing=score or the retriever.")
        return index.score(retriever, queries, self._allowed(ids, access), self.mask(access))

    def wording(self, retriever: Retriever, queries: Sequence[Query], access: Access) -> list[Wording] | None:
        index = self.index(retriever)
        return index.wording(retriever, queries, self.mask(access)) if implements(index, WordedIndex) else None

    def near(self, retriever: Retriever, ids: Sequence[int], k: int, access: Access) -> Rankings:
        mask, inner = self.mask(access), innermost(retriever)
        index = self.index(inner)
        if implements(index, VectorIndex):
            return self._as_ids(index.near(self._allowed(ids, access).tolist(), k, mask))
        texts = [Query(chunk.searchable) for chunk in self.chunks(ids, access)]
        return self._as_ids(index.search(inner, texts, k, mask))

    def _as_ids(self, rankings: Rankings) -> Rankings:
        """Replaces places by ids, and puts equal scores in order of id."""
        ids = (
            np.where(rankings.ids == PAD, PAD, self.table.ids[np.maximum(rankings.ids, 0)])
            if rankings.ids.size
            else rankings.ids
        )
        order = np.lexsort((np.where(ids == PAD, np.iinfo(np.int64).max, ids), -rankings.scores), axis=1)
        return replace(
            rankings, ids=np.take_along_axis(ids, order, 1), scores=np.take_along_axis(rankings.scores, order, 1)
        )

    # ------------------------------------------------------------ texts

    def chunks(self, ids: Sequence[int], access: Access) -> list[Chunk]:
        return [_chunk(entry) for entry in self._entries(self._allowed(ids, access))]

    def passages(self, ids: Sequence[int], access: Access, around: int | None = None) -> list[Passage]:
        places = self._allowed(ids, access)
        own = [(start, end) for start, end in self.table.rows[3:5, places].T.tolist()]
        spans = self._spans_of(places, around)
        passages_read = []
        for span, entry in zip(own, self._entries(places, spans), strict=True):
            matched = None if span == (entry.start, entry.end) else span
            where = location(entry.places, *span) if entry.places else ""
            file = self._source_name(entry.source), entry.path
            about = Passage(
                _chunk(entry), entry.title, entry.metadata, where, matched, *file, entry.lines, entry.version
            )
            passages_read.append(about)
        return passages_read

    def _spans_of(self, places: IdArray, around: int | None) -> list[tuple[int, int]]:
        """Returns the spans to read for chunks: of the passages that a search returns, or of `around` neighbours."""
        rows = self.table.rows
        if around is None:
            return [(start, end) for start, end in rows[5:7, places].T.tolist()]
        spans = []
        for place in places.tolist():
            near = rows[:, max(0, place - around) : place + around + 1]
            same = near[3:5, near[0] == rows[0, place]]  # the chunks of a version are in consecutive places
            spans.append((int(same[0].min()), int(same[1].max())))
        return spans

    def _source_name(self, source: int) -> str:
        """Returns the name of a source. The names are read once, when they are first needed."""
        if self._sources is None:
            self._sources = self._rows.source_names()
        return self._sources.get(source, "")

    def _entries(self, places: IdArray, spans: Sequence[tuple[int, int]] | None = None) -> list[ChunkEntry]:
        wanted = [(version, seq) for version, seq in self.table.rows[:2, places].T.tolist()]
        entries = self._rows.entries(self._layout, wanted, spans)
        if len(entries) < len(wanted):
            raise StoreError("This generation was deleted by a writer during the search. Search again.")
        return entries

    def parents(self, ids: IdArray) -> IdArray | None:
        parents = self.table.parents
        if parents is None:
            return None
        places = self.table.places(ids)
        return np.where(places == PAD, PAD, parents[np.maximum(places, 0)])

    def spans(self) -> Spans:
        if self._spans is None:
            _, _, ids, own_start, own_end, start, end = self.table.rows
            self._spans = Spans(ids, self.table.documents, start, end, own_start, own_end, self.table.names)
        return self._spans

    # ------------------------------------------------------------ access

    def mask(self, access: Access) -> Mask:
        """Returns the mask of the places that the caller may see."""
        return self._resolved(access)[0]

    def admitted(self, access: Access) -> set[str]:
        return {self.table.names[i] for i in np.flatnonzero(self._documents(access)).tolist()}

    def readable(self, access: Access) -> list[tuple[str, int]]:
        at = np.flatnonzero(self._documents(access)).tolist()
        return [(self.table.names[i], int(self.table.versions[i])) for i in at]

    def withheld(self, access: Access) -> int:
        return self._resolved(access)[1]

    def languages(self) -> dict[str, int]:
        """Returns how many passages are in documents of each language, as their metadata says."""
        if LANGUAGE not in self.table.columns:
            return {}
        column = self.table.columns[LANGUAGE]
        passages = np.bincount(self.table.documents, minlength=len(self.table.names))
        return {
            value: int(passages[column.documents[column.codes == code]].sum())
            for code, value in enumerate(column.values)
        }

    def facets(self, access: Access, keys: tuple[str, ...] = ()) -> tuple[Facet, ...]:
        columns = self.table.columns
        return self._facets.get_or_make(
            (access, keys), lambda: facets_of(columns, self._seen(access), access.where, keys)
        )

    def _allowed(self, ids: Any, access: Access) -> IdArray:
        """Returns the places of ids. Raises `StoreError` if the caller may not see one of them."""
        places = self.table.places(ids)
        bits = self.mask(access).bits
        if bits is not None and not bool((bits[np.maximum(places, 0)] | (places == PAD)).all()):
            raise PassageError("The caller may not read one of the requested passages.")
        return places

    def _resolved(self, access: Access) -> tuple[Mask, int]:
        return self._masks.get_or_make(access, lambda: self._resolve(access))

    def _resolve(self, access: Access) -> tuple[Mask, int]:
        """Returns the mask of a caller, and how many documents it hides."""
        documents = self._documents(access)
        hidden = len(documents) - int(np.count_nonzero(documents))
        return (Mask(documents[self.table.documents]) if hidden else EVERY), hidden

    def _documents(self, access: Access) -> BoolArray:
        """Returns which documents the caller may see and the filters accept. Raises `UsageError` for a metadata key
        that no visible document has; the message reveals nothing about other documents."""
        fits = self._seen(access)
        for condition in access.where:
            fits &= self.table.columns[condition.key].having(condition, len(fits))
        return fits

    def _seen(self, access: Access) -> BoolArray:
        """Returns which documents the caller may see, without the filters, whose keys are checked."""
        seen = np.ones(len(self.table.names), np.bool_)
        if not access.sees_all:
            for clauses, documents in self._restrictions():
                if not access.admits(clauses):
                    seen[documents] = False
        known = self.table.columns
        for condition in access.where:
            if condition.key not in known or (condition.key != PATH and not seen[known[condition.key].documents].any()):
                keys = known.keys_of(seen)
                raise UsageError(f"No document has the metadata key {condition.key!r}. {choices(condition.key, keys)}")
        return seen

    def idle_rules(self) -> list[PathRule]:
        """Returns the path rules that cover no document, most likely by mistake."""
        paths = {*self.table.paths, *self.table.names}
        return [rule for rule in self._rules if not any(map(rule.covers, paths))]

    def _restrictions(self) -> list[tuple[Clauses, IntArray]]:
        """Returns the different combinations of access lists, each with the documents that have it. A document has its
        own list and one for each path rule that covers it, or the default."""
        if self._clauses is None:
            own = dict(self.table.acls)
            alike: dict[Clauses, list[int]] = {}
            for document in range(len(self.table.names)) if self._rules else own:
                names = self.table.paths[document], self.table.names[document]
                lists = access_lists(own.get(document, ()), names, self._rules)
                if lists:
                    alike.setdefault(tuple(access_list.groups for access_list in lists), []).append(document)
            self._clauses = [(clauses, np.array(documents, np.int32)) for clauses, documents in alike.items()]
        return self._clauses

    # ------------------------------------------------------------ indexes

    def missing(self, retrievers: Sequence[Retriever]) -> list[Retriever]:
        return [
            retriever for retriever in needed(retrievers, self._services) if not self._indexes.has(self._key(retriever))
        ]

    def ready(self, retrievers: Sequence[Retriever]) -> None:
        for retriever in retrievers:
            self.index(retriever)

    def warm(self, earlier: View, required: Sequence[Retriever]) -> None:
        if not isinstance(earlier, LocalView):
            return
        needs = {used.index_spec(self._services) for used in needed(required, self._services)}
        for retriever in earlier._opened:
            try:
                self.index(retriever)
            except NotBuiltError:
                if innermost(retriever).index_spec(self._services) in needs:
                    raise
        for access in earlier._masks:
            try:
                self.mask(access)
            except UsageError:
                continue  # a metadata key that these documents do not have: the next caller gets the error
        _ = self.table.parents, self.table.places(self.table.ids[:1])

    def index(self, retriever: Retriever) -> Index:
        """Returns the index that a retriever searches; it is opened once."""
        return self._opened.get_or_make(retriever, lambda: self._open(retriever))

    def _open(self, retriever: Retriever) -> Index:
        stage = declared(retriever)
        if stage.inner is not None:  # it wraps another retriever's index
            return stage.wrap(self.index(stage.inner), self._services)
        key = self._key(retriever)
        if key not in self._loaded:
            self._loaded[key] = self._load(key, retriever)
        index = stage.over(self._loaded[key], [self.index(used) for used in stage.uses])
        if not self._once:  # kernels and models load when they are first used: here, so that no query waits for it
            if implements(index, WarmIndex):
                index.warm()
            index.search(retriever, [Query("warm up")], 1, EVERY)
        return index

    def _load(self, key: str, retriever: Retriever) -> Index:
        try:
            if self._indexes.has(key):
                index = self._indexes.load(key, retriever, self._services)
                if len(index) != len(self):
                    raise CorruptIndexError(f"The index {key} has {len(index)} passages instead of {len(self)}.")
                return Isolated(index) if self.isolated and implements(index, StatisticalIndex) else index
        except CorruptIndexError as error:
            raise NotBuiltError(f"{error} {REPAIR}") from error
        raise NotBuiltError(
            f"There is no index for {retriever} over these documents. Build it with surefind sync (for the pipelines "
            "in surefind.toml), surefind search (for the pipeline that you give it), or kb.build(...) from Python."
        )

    def _key(self, retriever: Retriever) -> str:
        return index_key(self.fingerprint, retriever, self._services)


def _chunk(entry: ChunkEntry) -> Chunk:
    return Chunk(entry.document, entry.start, entry.end, entry.text, entry.headings, entry.context, title=entry.title)
