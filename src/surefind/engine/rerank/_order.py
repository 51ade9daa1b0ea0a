"""Builds the result of a reranker: the chunks it decided on come first, the others follow in their previous order.

A reranker drops nothing. Chunks that it did not read, or did not keep, follow with the scores -1, -2, … (or that far
below the lowest decided score): these scores are places, not judgments.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefind.base.types import PAD, Rankings

Decided = Sequence[tuple[int, float]]
"""The chunks that a reranker decided on, with their scores; in any order."""


def reordered(rankings: Rankings, decided: Sequence[Decided], k: int, source: str) -> Rankings:
    """Returns for each query the decided chunks by score (ties by id), then the rest in its previous order, cut to k.

    A row for which nothing was decided stays unchanged, including its scores.
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
