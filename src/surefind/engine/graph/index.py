"""The index behind the graph retrievers: the facts of all chunks, and other retrievers' indexes to find near passages.

A caller with restricted access gets the graph of the chunks they may read, which is derived at the first search and
cached. So a search with a mask answers as if the other chunks did not exist.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from surefind.base.abilities import implements
from surefind.base.errors import NotBuiltError, SpecError
from surefind.base.protocols import Extractor, Index, Progress, Retriever, Reuse, ScoringIndex, Services
from surefind.base.running import BoundedCache
from surefind.base.types import PAD, Chunk, FloatArray, IdArray, Mask, Query, Rankings
from surefind.engine.graph.derive import Graph, derive
from surefind.engine.graph.facts import Facts

_DEPTH = 100
"""Passages that each retriever returns to find the nearest."""
_MAX_GRAPHS = 8
"""Number of masks whose graphs stay in memory, besides the graph of all chunks."""


class GraphIndex:
    """The index. Its retrievers have a method `scores(index, queries, allow)`, which scores every chunk; 0 means not
    found."""

    def __init__(self, facts: Facts, services: Services) -> None:
        self.facts = facts
        self.services = services
        self.near: Mapping[str, Any] = {}
        """The indexes that find passages near a query, by retriever: several may share one on disk."""
        self._whole: BoundedCache[bytes, Graph] = BoundedCache(1)
        self._graphs: BoundedCache[bytes, Graph] = BoundedCache(_MAX_GRAPHS)
        self._last: tuple[Any, FloatArray] | None = None

    @classmethod
    def build(
        cls,
        chunks: Sequence[Chunk],
        extractor: Extractor,
        services: Services,
        reuse: Reuse | None,
        progress: Progress | None,
        context: bool = False,
    ) -> GraphIndex:
        earlier = cast(GraphIndex, reuse.index) if reuse else None
        origin = reuse.origin if reuse else None
        known = earlier.facts if earlier else None
        facts = Facts.build(chunks, extractor, services, known, origin, progress, context)
        return cls(facts, services)

    def over(self, near: Sequence[Retriever], indexes: Sequence[Index]) -> Self:
        """A copy of this index that uses the given indexes; both share the derived graphs."""
        made = copy.copy(self)
        made.near = dict(zip(map(str, near), indexes, strict=True))
        made._last = None
        return made

    def __len__(self) -> int:
        return len(self.facts)

    def save(self, folder: Path) -> None:
        self.facts.save(folder)

    @classmethod
    def load(cls, folder: Path, services: Services) -> GraphIndex:
        return cls(Facts.load(folder), services)

    def nearest(
        self, near: Sequence[Retriever], queries: Sequence[Query], count: int, allow: Mask
    ) -> list[tuple[list[int], FloatArray]]:
        """The passages nearest to each query, and how near they are: the mean of the retrievers' scores, each scaled
        from 0 (the last of its first `_DEPTH`) to 1 (its best)."""
        for retriever in near:
            if not implements(self._index_of(retriever), ScoringIndex):
                raise SpecError(f"{retriever} cannot score single passages, so it cannot be a seed.")
        rankings = [self._index_of(retriever).search(retriever, queries, _DEPTH, allow) for retriever in near]
        table = _union(rankings)
        total = np.zeros(table.shape, np.float64)
        for retriever, ranking in zip(near, rankings, strict=True):
            own = self._index_of(retriever).score(retriever, queries, table, allow)
            there = ranking.ids != PAD
            low = np.where(there, ranking.scores, np.inf).min(axis=1, initial=np.inf)[:, None]
            high = np.where(there, ranking.scores, -np.inf).max(axis=1, initial=-np.inf)[:, None]
            spread = np.where(high > low, high - low, 1.0)
            total += np.where(there.any(axis=1)[:, None], (np.where(table == PAD, 0, own) - low) / spread, 0.0)
        rows = []
        for places, nearness in zip(table, total / len(near), strict=True):
            order = np.lexsort((places, -nearness, places == PAD))[:count]
            order = order[places[order] != PAD]
            rows.append((places[order].tolist(), nearness[order].astype(np.float32)))
        return rows

    def _index_of(self, retriever: Retriever) -> Any:
        name = str(retriever)
        if name not in self.near:
            raise NotBuiltError(
                f"The graph has no index of {retriever} to find near passages. Give it one with over()."
            )
        return self.near[name]

    def graph(self, allow: Mask) -> Graph:
        """The graph of the allowed chunks."""
        graphs = self._graphs if allow.key else self._whole
        return graphs.get_or_make(allow.key, lambda: derive(self.facts, allow))

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        return best(self._scores(retriever, queries, allow), k, retriever.name)

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        """The scores of given chunks, (queries, chunks). A chunk that is not found scores 0, padding -inf."""
        all_scores = self._scores(retriever, queries, allow)
        scores = np.take_along_axis(all_scores, np.maximum(ids, 0), 1)
        return np.where(ids == PAD, -np.inf, scores).astype(np.float32)

    def _scores(self, retriever: Any, queries: Sequence[Query], allow: Mask) -> FloatArray:
        """The scores of all chunks. The last result is cached, because the same queries are scored after they are
        searched."""
        key = (retriever, tuple(query.text for query in queries), allow.key)
        known = self._last
        if known is None or known[0] != key:
            known = self._last = (key, retriever.scores(self, queries, allow))
        return known[1]


def _union(rankings: Sequence[Rankings]) -> IdArray:
    """The passages of all rankings for each query, sorted and padded."""
    return padded(
        [
            np.unique(np.concatenate([ranking.row(i)[0] for ranking in rankings])).tolist()
            for i in range(len(rankings[0]))
        ]
    )


def padded(rows: Sequence[Sequence[int]]) -> IdArray:
    """Pads rows of different lengths to one table."""
    table = np.full((len(rows), max(map(len, rows), default=0)), PAD, np.int64)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    return table


def best(scores: FloatArray, k: int, source: str) -> Rankings:
    """The k highest scores above 0 of each row; equal scores in the order of their ordinals."""
    k = min(k, scores.shape[1])
    ordinals = np.full((len(scores), k), PAD, np.int64)
    best_scores = np.full((len(scores), k), -np.inf, np.float32)
    for i, row in enumerate(scores):
        there = np.flatnonzero(row > 0)
        if len(there) > 4 * k > 0:
            there = there[row[there] >= np.partition(row[there], len(there) - k)[len(there) - k]]
        order = there[np.lexsort((there, -row[there]))][:k]
        ordinals[i, : len(order)], best_scores[i, : len(order)] = order, row[order]
    return Rankings(ordinals, best_scores, source, "graph", 0.0)
