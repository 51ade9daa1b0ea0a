"""How every reranker hands on what it decided: some candidates take the first places, the others follow as they came.

A reranker loses nobody. What it did not look at, or does not vouch for, stands below in the order it had, with the
scores -1, -2, … (or below the lowest decided score): places, not judgments.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefind.types import PAD, Rankings

Decided = Sequence[tuple[int, float]]
"""Chunks that were looked at, with their scores; in any order."""


def reordered(rankings: Rankings, decided: Sequence[Decided], k: int, source: str) -> Rankings:
    """For each query the decided chunks by score (ties by id), then the rest as they came; the best k of all.

    A row for which nothing was decided stays as it was, scores and all.
    """
    width = min(k, rankings.ids.shape[1])
    ids = np.full((len(rankings), width), PAD, np.int64)
    scores = np.full((len(rankings), width), -np.inf, rankings.scores.dtype)
    for i, pairs in enumerate(decided):
        given, before = rankings.row(i)
        head = np.array([number for number, _ in pairs], np.int64)
        values = np.array([score for _, score in pairs], scores.dtype)
        if len(head):
            best = np.lexsort((head, -values))
            rest = given[~np.isin(given, head)]
            below = min(0.0, float(values.min())) - np.arange(1, len(rest) + 1, dtype=scores.dtype)
            given, before = np.concatenate([head[best], rest]), np.concatenate([values[best], below])
        n = min(width, len(given))
        ids[i, :n], scores[i, :n] = given[:n], before[:n]
    return Rankings(ids, scores, source, "mixed")
