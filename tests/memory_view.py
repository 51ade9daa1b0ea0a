"""A view of chunks in memory, for tests of stages that need more than a ranking."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np

from surefind.base.abilities import WordedIndex, declared
from surefind.base.access import Access, PathRule
from surefind.base.errors import SpecError
from surefind.base.protocols import Index, Retriever, ScoringIndex, Services, VectorIndex
from surefind.base.types import EVERY, Chunk, FloatArray, IdArray, Mask, Query, Rankings, Wording
from surefind.engine.store.backend import Passage, Spans, View
from surefind.engine.store.indexes import innermost
from surefind.engine.store.table import Facet
from surefind.testing.retrievers import built
from surefind.testing.stages import rule


class MemoryView:
    """A `View` of a list of chunks. An id is the index in the list; `allow` says which chunks every caller may see."""

    layout = "memory"
    fingerprint = "memory"
    sketch: tuple[int, ...] = ()

    def __init__(self, chunks: Sequence[Chunk], services: Services, allow: Mask = EVERY) -> None:
        self._chunks = chunks
        self._services = services
        self._allow = allow
        self._indexes: dict[str, Index] = {}

    def __len__(self) -> int:
        return len(self._chunks)

    def index(self, retriever: Retriever) -> Index:
        if str(retriever) not in self._indexes:
            stage = declared(retriever)
            self._indexes[str(retriever)] = (
                built(retriever, self._chunks, self._services)
                if stage.inner is None
                else stage.wrap(self.index(stage.inner), self._services)
            )
        return self._indexes[str(retriever)]

    def search(self, retriever: Retriever, queries: Sequence[Query], k: int, access: Access) -> Rankings:
        return self.index(retriever).search(retriever, queries, k, self._allow)

    def score(self, retriever: Retriever, queries: Sequence[Query], ids: IdArray, access: Access) -> FloatArray:
        index = self.index(retriever)
        if not isinstance(index, ScoringIndex):
            raise SpecError(f"{retriever} cannot score single passages. Leave out missing=score, or the retriever.")
        return index.score(retriever, queries, ids, self._allow)

    def wording(self, retriever: Retriever, queries: Sequence[Query], access: Access) -> list[Wording] | None:
        index = self.index(retriever)
        return index.wording(retriever, queries, self._allow) if isinstance(index, WordedIndex) else None

    def near(self, retriever: Retriever, ids: Sequence[int], k: int, access: Access) -> Rankings:
        inner = innermost(retriever)
        index = self.index(inner)
        if isinstance(index, VectorIndex):
            return index.near(ids, k, self._allow)
        texts = [Query(chunk.searchable) for chunk in self.chunks(ids, access)]
        return index.search(inner, texts, k, self._allow)

    def chunks(self, ids: Sequence[int], access: Access) -> list[Chunk]:
        rule(
            self._allow.bits is None or all(self._allow.bits[chunk_id] for chunk_id in ids),
            "A forbidden passage was read.",
        )
        return [self._chunks[chunk_id] for chunk_id in ids]

    def passages(self, ids: Sequence[int], access: Access, around: int | None = None) -> list[Passage]:
        return [Passage(chunk, chunk.title, {}, "", None) for chunk in self.chunks(ids, access)]

    def parents(self, ids: IdArray) -> IdArray | None:
        return None

    @cached_property
    def _spans(self) -> Spans:
        names = list(dict.fromkeys(chunk.document for chunk in self._chunks))
        documents = np.array([names.index(chunk.document) for chunk in self._chunks])
        starts = np.array([chunk.start for chunk in self._chunks])
        ends = np.array([chunk.end for chunk in self._chunks])
        return Spans(np.arange(len(self._chunks)), documents, starts, ends, starts, ends, names)

    def spans(self) -> Spans:
        return self._spans

    def admitted(self, access: Access) -> Collection[str]:
        return {chunk.document for chunk in self._chunks}

    def readable(self, access: Access) -> list[tuple[str, int]]:
        return [(name, 0) for name in sorted(self.admitted(access))]

    def withheld(self, access: Access) -> int:
        return 0

    def facets(self, access: Access, keys: tuple[str, ...] = ()) -> tuple[Facet, ...]:
        return ()

    def idle_rules(self) -> list[PathRule]:
        return []

    def missing(self, retrievers: Sequence[Retriever]) -> list[Retriever]:
        return []

    def ready(self, retrievers: Sequence[Retriever]) -> None:
        for retriever in retrievers:
            self.index(retriever)

    def warm(self, earlier: View, required: Sequence[Retriever]) -> None:
        self.ready(required)
