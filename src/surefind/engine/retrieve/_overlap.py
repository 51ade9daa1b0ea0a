"""The index behind `entity_overlap`: which entities each chunk names, and PageRank over chunks that share entities.

Chunks that a caller may not read do not influence the PageRank: it is computed from the allowed chunks, in their order,
at the first search.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from surefind.base.disk.arrays import check_offsets, check_range, read_array, strings
from surefind.base.protocols import Extractor, Progress, Services
from surefind.base.types import PAD, Chunk, FloatArray, IdArray, IntArray, Mask, Query, Rankings
from surefind.engine.graph import walk
from surefind.engine.graph.index import best
from surefind.engine.graph.walk import pagerank

_MAX_CACHED_RANKS = 8
"""How many PageRanks are cached, one per retriever and mask."""
_COMMON = 0.05
"""Without a window, entities in more than this share of the chunks do not connect chunks."""


class Walk(Hashable, Protocol):
    """The parameters of `entity_overlap` that a search needs."""

    name: ClassVar[str]

    @property
    def window(self) -> int: ...

    @property
    def least(self) -> int: ...

    @property
    def damping(self) -> float: ...


class Overlap:
    def __init__(self, names: list[str], starts: Any, entities: Any, extractor: Extractor, services: Services) -> None:
        self.names = names
        """The names of the entities, in alphabetical order."""
        self.starts: IntArray = starts
        self.entities: IntArray = entities
        """`entities[starts[i]:starts[i + 1]]` are the entities of chunk i, sorted by number."""
        self._extractor = extractor
        self._services = services
        self._numbers = {name: i for i, name in enumerate(names)}
        self._by_entity: tuple[Any, Any] | None = None
        self._rank = lru_cache(maxsize=_MAX_CACHED_RANKS)(self._ranked)

    @classmethod
    def build(
        cls,
        chunks: Sequence[Chunk],
        extractor: Extractor,
        services: Services,
        earlier: Overlap | None = None,
        origin: IntArray | None = None,
        progress: Progress | None = None,
    ) -> Overlap:
        fresh = [i for i in range(len(chunks)) if earlier is None or origin is None or origin[i] < 0]
        texts = [f"{chunks[i].title}\n{chunks[i].text}" for i in fresh]
        new = zip(fresh, extractor.extract(texts, services, progress), strict=True)
        named = {i: {mention.name for mention in extraction.mentions} for i, extraction in new}
        if earlier is not None and origin is not None:
            named |= {i: set(earlier.of(int(origin[i]))) for i in range(len(chunks)) if origin[i] >= 0}
        names = sorted(set().union(*named.values()))
        numbers = {name: i for i, name in enumerate(names)}
        rows = [sorted(numbers[name] for name in named[i]) for i in range(len(chunks))]
        starts = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)]).astype(np.int32)
        entities = np.fromiter((entity for row in rows for entity in row), np.int32, int(starts[-1]))
        return cls(names, starts, entities, extractor, services)

    def of(self, chunk: int) -> list[str]:
        return [self.names[i] for i in self.entities[self.starts[chunk] : self.starts[chunk + 1]].tolist()]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def save(self, folder: Path) -> None:
        (folder / "names.json").write_text(json.dumps(self.names, ensure_ascii=False), encoding="utf-8")
        np.save(folder / "starts.npy", self.starts)
        np.save(folder / "entities.npy", self.entities)

    @classmethod
    def load(cls, folder: Path, extractor: Extractor, services: Services) -> Overlap:
        names = strings("names", json.loads((folder / "names.json").read_text(encoding="utf-8")))
        starts, entities = (read_array(folder / f"{name}.npy", np.int32) for name in ("starts", "entities"))
        check_offsets("starts", starts, len(starts) - 1, len(entities))
        check_range("entities", entities, 0, len(names))
        return cls(names, starts, entities, extractor, services)

    def search(self, retriever: Walk, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        return best(self._scores(retriever, queries, allow), k, retriever.name)

    def score(self, retriever: Walk, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        """The scores of given chunks, (queries, chunks). A chunk that shares no entity scores 0, padding -inf."""
        scores = np.take_along_axis(self._scores(retriever, queries, allow), np.maximum(ids, 0), 1)
        return np.where(ids == PAD, -np.inf, scores).astype(np.float32)

    def _scores(self, retriever: Walk, queries: Sequence[Query], allow: Mask) -> FloatArray:
        shared = np.zeros((len(queries), len(self)), np.float64)
        if not len(self):
            return shared.astype(np.float32)
        starts, chunks = self._postings()
        extractions = self._extractor.extract([query.text for query in queries], self._services)
        for row, extraction in zip(shared, extractions, strict=True):
            for name in {mention.name for mention in extraction.mentions}:
                entity = self._numbers.get(name)
                if entity is not None:
                    row[chunks[starts[entity] : starts[entity + 1]]] += 1
        rank = self._rank(retriever, None if allow.bits is None else allow.bits.tobytes())
        return (shared * (1 + rank) * (1 if allow.bits is None else allow.bits)).astype(np.float32)

    def _postings(self) -> tuple[Any, Any]:
        if self._by_entity is None:
            order = np.argsort(self.entities, kind="stable")
            chunks = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.starts))[order]
            sizes = np.bincount(self.entities, minlength=len(self.names))
            self._by_entity = np.concatenate([[0], np.cumsum(sizes)]), chunks
        return self._by_entity

    def _ranked(self, retriever: Walk, mask: bytes | None) -> NDArray[np.float64]:
        """PageRank per chunk; 0 for chunks that are not allowed."""
        allow = np.ones(len(self), np.bool_) if mask is None else np.frombuffer(mask, np.bool_)
        kept = np.flatnonzero(allow)
        sizes = np.diff(self.starts)[kept]
        entities = self.entities[np.repeat(allow, np.diff(self.starts))]
        if not retriever.window:
            common = np.bincount(entities, minlength=len(self.names)) > max(2, _COMMON * len(kept))
            rare = ~common[entities]
            sizes = np.bincount(np.repeat(np.arange(len(kept)), sizes)[rare], minlength=len(kept))
            entities = entities[rare]
        starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int32)
        edges = walk.overlaps(starts, entities, len(self.names), retriever.window, retriever.least)
        rank = np.zeros(len(self))
        rank[kept] = pagerank(edges[0], edges[1], retriever.damping)
        return rank
