"""The steps of every fusion: scale the rankings, add up their scores for each chunk, sort.

All functions work on the whole batch of queries. A chunk that a ranking did not return gets the bottom of that
ranking's scale (for min-max its lowest score, for `tm2c2` the theoretical minimum). With `missing=score`, the pipeline
asks that retriever to score the chunk (`pipeline.complete`) before anything is scaled. docs/results/fusion.md shows the
difference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from surefind.base.errors import SpecError
from surefind.base.spec import Stage
from surefind.base.types import PAD, Floats, Rankings, Signal


def present(ranking: Rankings) -> NDArray[np.bool_]:
    return np.asarray(ranking.ids != PAD)


def min_max(ranking: Rankings) -> Floats:
    """Scales each row from 0 (its lowest score) to 1 (its highest). If all scores of a row are equal, they become 1: a
    result that was found is worth more than one that was not."""
    there = present(ranking)
    scores = ranking.scores.astype(np.float64)
    low = np.min(scores, axis=1, keepdims=True, where=there, initial=np.inf)
    high = np.max(scores, axis=1, keepdims=True, where=there, initial=-np.inf)
    spread = high - low
    flat = ~(spread > 0)
    with np.errstate(invalid="ignore"):
        scaled = (scores - low) / np.where(flat, 1.0, spread)
    return np.where(there, np.where(flat, 1.0, scaled), 0.0)


def from_floor(ranking: Rankings) -> Floats:
    """Scales each row from 0 (the lowest score the retriever can give) to 1 (the row's highest). A ranking without a
    known floor (the result of a fusion) is scaled from its lowest score."""
    if not np.isfinite(ranking.floor):
        return min_max(ranking)
    there = present(ranking)
    above = np.where(there, ranking.scores.astype(np.float64) - ranking.floor, 0.0)
    high = np.max(above, axis=1, keepdims=True, where=there, initial=0.0)
    return np.where(there, np.maximum(above, 0.0) / np.where(high > 0, high, 1.0), 0.0)


def dense_weights(stage: Stage, alpha: float, rankings: Sequence[Rankings]) -> list[float]:
    """α for the dense ranking and 1 - α for the other."""
    dense = [ranking.signal == "dense" for ranking in rankings]
    if len(rankings) != 2 or sum(dense) != 1:
        names = ", ".join(ranking.source for ranking in rankings)
        raise SpecError(
            f"{stage} needs one dense and one other ranking, got: {names}. Fuse these with weighted or rrf."
        )
    return [alpha if is_dense else 1 - alpha for is_dense in dense]


def z_scores(ranking: Rankings) -> Floats:
    """How many standard deviations each score is above the mean of its row; 0 where all scores are equal."""
    there = present(ranking)
    scores = np.where(there, ranking.scores, 0.0).astype(np.float64)
    count = np.maximum(there.sum(axis=1, keepdims=True), 1)
    mean = scores.sum(axis=1, keepdims=True) / count
    deviation = np.where(there, scores - mean, 0.0)
    std = np.sqrt((deviation**2).sum(axis=1, keepdims=True) / count)
    return np.asarray(deviation / np.where(std > 1e-9, std, np.inf))


def weights_for(stage: Stage, weights: tuple[float, ...] | None, rankings: Sequence[Rankings]) -> tuple[float, ...]:
    if weights is None:
        return (1.0,) * len(rankings)
    if len(weights) != len(rankings):
        names = ", ".join(ranking.source for ranking in rankings)
        raise SpecError(f"{stage} has {len(weights)} weights for {len(rankings)} rankings ({names}). Give one each.")
    return weights


def alpha_of(weights: tuple[float, ...] | None, signals: Sequence[Signal]) -> float | None:
    """The share of the dense ranking in weights of two rankings; None unless exactly one of the two is dense."""
    shares = weights or (1.0,) * len(signals)
    if len(shares) != 2 or len(signals) != 2 or signals.count("dense") != 1:
        return None
    return shares[signals.index("dense")] / sum(shares)


def join(
    rankings: Sequence[Rankings],
    contributions: Sequence[Floats],
    k: int,
    source: str,
    times_found: bool = False,
) -> Rankings:
    """Sums the contributions per chunk and keeps the best k of each query; ties are ordered by id.

    With `times_found`, a sum is multiplied by the number of rankings that contain the chunk (CombMNZ).
    """
    ids, order, first, starts = _aligned(rankings)
    gains = np.where(ids == PAD, 0.0, np.take_along_axis(np.concatenate(contributions, axis=1), order, 1))
    sums = np.zeros(gains.size)
    if gains.size:
        sums[starts] = np.add.reduceat(gains.ravel(), starts)
        if times_found:
            sums[starts] *= np.diff([*starts, gains.size])
    scores = np.where(first & (ids != PAD), sums.reshape(gains.shape).round(_DECIMALS), -np.inf)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    scores = np.take_along_axis(scores, best, 1)
    ids = np.where(np.isneginf(scores), PAD, np.take_along_axis(ids, best, 1))
    width = int(np.max(np.count_nonzero(ids != PAD, axis=1), initial=0))
    return Rankings(ids[:, :width], scores[:, :width], source, "mixed")


_DECIMALS = 12
"""Decimals that sums are rounded to, so that sums of the same numbers in another order are equal: a tie, ordered by id.
"""
_Alignment = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]
_last: tuple[list[NDArray[np.int64]], _Alignment] | None = None


def _aligned(rankings: Sequence[Rankings]) -> _Alignment:
    """Sorts the ids of each query; returns them, the order that sorts them, and the start of each chunk's run.

    A benchmark fuses the same rankings by a dozen methods, so the last alignment is cached and returned while the same
    arrays are passed.
    """
    global _last
    lists = [ranking.ids for ranking in rankings]
    known = _last  # read once and written once: another thread may replace it at any moment
    if known is not None and len(known[0]) == len(lists) and all(a is b for a, b in zip(known[0], lists, strict=True)):
        return known[1]
    joined = np.concatenate(lists, axis=1)
    order = np.argsort(joined.view(np.uint64), axis=1, kind="stable")  # as unsigned, the padding comes last
    ids = np.take_along_axis(joined, order, 1)
    first = np.ones(ids.shape, np.bool_)
    first[:, 1:] = ids[:, 1:] != ids[:, :-1]
    # Every row starts a run, so runs never cross rows.
    alignment = (ids, order, first, np.flatnonzero(first))
    _last = (lists, alignment)
    return alignment
