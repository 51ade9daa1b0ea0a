"""What indexes of several parts share: the part of each chunk, masks for the parts, and merging their rankings.

The chunks of a part are in the same order as in the whole. So of equal scores, each part keeps those that the whole
would keep, and a merged ranking is that of an index built from nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from surefind.base.running import BoundedCache
from surefind.base.types import PAD, FloatArray, IdArray, IntArray, Mask, Rankings

_MAX_MASKS = 16
"""How many masks stay in memory, split among the parts."""


class Division:
    """How the chunks of an index are divided among its parts."""

    def __init__(self, places: Sequence[IntArray]) -> None:
        """`places` has the place in the whole of each chunk of each part; -1 if the chunk is gone. Raises `ValueError`
        unless every place from 0 on is in exactly one part."""
        self.places = places
        self.alive = [place >= 0 for place in places]
        self.count = sum(int(np.count_nonzero(living)) for living in self.alive)
        self._home: NDArray[np.int16] = np.full(self.count, -1, np.int16)
        self._local: IntArray = np.zeros(self.count, np.int32)
        for i, (own, alive) in enumerate(zip(places, self.alive, strict=True)):
            there = own[alive]
            if there.size and (int(there.max()) >= self.count or bool((np.diff(there) <= 0).any())):
                raise ValueError("the places of a part are not in order, or out of range")
            self._home[there], self._local[there] = i, np.flatnonzero(alive)
        if bool((self._home < 0).any()):
            raise ValueError("a place is in two parts, and another in none")
        self._masks: BoundedCache[bytes, list[Mask]] = BoundedCache(_MAX_MASKS)

    def masks(self, allow: Mask) -> list[Mask]:
        """Returns the mask of each part. Chunks that are gone are never allowed."""
        parts = range(len(self.places))
        return self._masks.get_or_make(allow.key, lambda: [Mask(self._bits(i, allow)) for i in parts])

    def _bits(self, part: int, allow: Mask) -> NDArray[np.bool_]:
        if allow.bits is None:
            return self.alive[part]
        return self.alive[part] & allow.bits[np.maximum(self.places[part], 0)]

    def merged(self, rankings: Sequence[Rankings], k: int) -> Rankings:
        """Merges the rankings of the parts into the best k; equal scores in order of place."""
        ids = np.concatenate(
            [_mapped(own, ranking.ids) for own, ranking in zip(self.places, rankings, strict=True)], axis=1
        )
        scores = np.concatenate([ranking.scores for ranking in rankings], axis=1)
        order = np.lexsort((np.where(ids == PAD, self.count, ids), -scores), axis=1)[:, :k]
        return replace(rankings[0], ids=np.take_along_axis(ids, order, 1), scores=np.take_along_axis(scores, order, 1))

    def scored(self, ids: IdArray, score: Callable[[int, IdArray], FloatArray]) -> FloatArray:
        """Scores chunks of the whole. `score` is called with the number of a part and its own numbers of the chunks,
        padded where a chunk is in another part."""
        scores = np.full(ids.shape, -np.inf, np.float32)
        for i, there, local in self.located(ids):
            scores = np.where(there, score(i, np.where(there, local, PAD)), scores)
        return scores

    def located(self, ids: IdArray) -> list[tuple[int, NDArray[np.bool_], IdArray]]:
        """Returns, for each part with some of these chunks, which they are, and its own number of each."""
        if not self.count:
            return []
        wanted = np.maximum(ids, 0)
        homes = np.where(ids == PAD, -1, self._home[wanted])
        local = self._local[wanted].astype(np.int64)
        return [(i, homes == i, local) for i in range(len(self.places)) if bool((homes == i).any())]


def _mapped(places: IntArray, ids: IdArray) -> IdArray:
    return np.where(ids == PAD, PAD, places[np.maximum(ids, 0)]) if len(places) else ids
