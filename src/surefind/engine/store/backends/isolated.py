"""Searches an index as if it held only the chunks that the caller may see: `isolation = "statistics"`.

BM25 and TF-IDF weigh words by how many chunks contain them. Over all chunks, these weights reveal which words occur in
documents that the caller may not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from surefind.base.abilities import StatisticalIndex, WarmIndex, WordedIndex, implements
from surefind.base.protocols import ScoringIndex
from surefind.base.running.cache import BoundedCache
from surefind.base.types import EVERY, PAD, FloatArray, IdArray, Mask, Query, Rankings, Wording

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
