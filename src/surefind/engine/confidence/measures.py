"""Measures how sure the ranking of each query is, from its scores alone.

    max         s_1                                      the highest score (the agentic-knowledge-base study, eq. 28)
    margin      (s_1 - s_2) / (s_1 - s_10)               the lead of the first passage
    agreement   mean over d = 1 … 10 of |A_d ∩ B_d| / d  how many of their first d passages two retrievers share
    raw         mean over retrievers of 1 - b / s_1      the lead of a retriever's first score over its median one, b

`max` and `margin` read the ranking before the reranker. `agreement` and `raw` read those of the retrievers; scores
are counted from the lowest one possible. With scores that were scaled for each query, such as those of `convex`, `max`
is 1 whenever one passage is first in every ranking; `raw` keeps how high the scores are. A query with fewer than two
passages has nothing to reorder: its confidence is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from surefind.base.types import PAD, Floats, Rankings

When = Literal["max", "margin", "agreement", "raw", "predicted"]
MEASURED: tuple[When, ...] = ("max", "margin", "agreement", "raw")
OF_RETRIEVERS = frozenset({"agreement", "raw", "predicted"})
"""Measures that read the rankings of the retrievers."""
_DEPTH = 10
"""Passages that `margin` and `agreement` look at."""
_SHARES = np.array(
    [[sum(1 / d for d in range(max(i, j) + 1, _DEPTH + 1)) / _DEPTH for j in range(_DEPTH)] for i in range(_DEPTH)]
)
"""What a passage adds to `agreement` that two retrievers rank at i and j, counted from 0: it is shared from
d = max(i, j) + 1 on."""


def confidence(ranking: Rankings, retrieved: Sequence[Rankings], when: When) -> Floats:
    """The confidence in the ranking of each query, by a measure other than `predicted`."""
    if when == "max":
        values = _first(ranking)
    elif when == "margin":
        values = margin(ranking)
    elif when == "agreement":
        values = agreement(retrieved)
    else:
        values = np.asarray(np.mean([lead(ranking_of) for ranking_of in retrieved], axis=0))
    return np.where(_counts(ranking) < 2, np.inf, values)


def features(ranking: Rankings, retrieved: Sequence[Rankings]) -> Floats:
    """What the predictor reads, (queries, features): the measures, and for each retriever its first score, its lead and
    its margin."""
    columns = [_first(ranking), margin(ranking), agreement(retrieved), shared_first(ranking, retrieved)]
    for ranking_of in retrieved:
        columns += [np.log1p(_above(ranking_of)[:, 0]), lead(ranking_of), margin(ranking_of)]
    return np.stack(columns, axis=1)


def _first(ranking: Rankings) -> Floats:
    return np.where(_counts(ranking) > 0, _column(ranking.scores, 0), 0.0)


def margin(ranking: Rankings) -> Floats:
    there = ranking.ids[:, :_DEPTH] != PAD
    counts = there.sum(axis=1)
    scores = np.where(there, ranking.scores[:, :_DEPTH], 0.0).astype(np.float64)
    last = np.maximum(counts - 1, 0)
    first, second = _column(scores, 0), _column(scores, 1)
    low = np.take_along_axis(scores, last[:, None], 1)[:, 0] if scores.shape[1] else first
    spread = first - low
    return np.where((counts > 1) & (spread > 0), (first - second) / np.where(spread > 0, spread, 1.0), 0.0)


def agreement(retrieved: Sequence[Rankings]) -> Floats:
    """The mean over all pairs of retrievers; 0 if there is one retriever."""
    overlaps = [_shared(a.ids, b.ids) for a, b in combinations(retrieved, 2)]
    return np.asarray(np.mean(overlaps, axis=0)) if overlaps else np.zeros(len(retrieved[0]))


def _shared(a: NDArray[np.int64], b: NDArray[np.int64]) -> Floats:
    a, b = _wide(a), _wide(b)
    same = (a[:, :, None] == b[:, None, :]) & (a[:, :, None] != PAD)
    return np.asarray((same * _SHARES).sum(axis=(1, 2)))


def shared_first(ranking: Rankings, retrieved: Sequence[Rankings]) -> Floats:
    """The share of retrievers that rank the same passage first."""
    first = _wide(ranking.ids)[:, 0]
    return np.asarray(
        np.mean([(_wide(ranking_of.ids)[:, 0] == first) & (first != PAD) for ranking_of in retrieved], axis=0)
    )


def lead(ranking: Rankings) -> Floats:
    above, counts = _above(ranking), _counts(ranking)
    middle = np.stack([np.maximum(counts - 1, 0) // 2, counts // 2], axis=1)  # a ranking is sorted
    medians = np.take_along_axis(above, np.minimum(middle, above.shape[1] - 1), 1).mean(axis=1)
    first = _column(above, 0)
    return np.where(first > 0, 1 - medians / np.where(first > 0, first, 1.0), 0.0)


def _above(ranking: Rankings) -> Floats:
    """The scores above the lowest one possible, or above the lowest of the row if that is not known."""
    there = ranking.ids != PAD
    scores = ranking.scores.astype(np.float64)
    if not scores.shape[1]:
        return np.zeros((len(ranking), 1))
    floor: float | Floats = ranking.floor
    if not math.isfinite(ranking.floor):
        lowest = np.min(scores, axis=1, keepdims=True, where=there, initial=np.inf)
        floor = np.where(np.isfinite(lowest), lowest, 0.0)
    return np.where(there, np.maximum(scores - floor, 0.0), 0.0)


def _counts(ranking: Rankings) -> NDArray[np.int64]:
    return np.asarray((ranking.ids != PAD).sum(axis=1))


def _column(scores: NDArray[np.floating], number: int) -> Floats:
    return scores[:, number].astype(np.float64) if scores.shape[1] > number else np.zeros(len(scores))


def _wide(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first ids of each row, padded."""
    missing = _DEPTH - ids.shape[1]
    return np.pad(ids, ((0, 0), (0, missing)), constant_values=PAD) if missing > 0 else ids[:, :_DEPTH]
