"""What every fusion shares: bring rankings to one scale, add up what each says of a chunk, sort.

Everything works on the whole batch of queries at once. A chunk that a ranking did not return gets nothing from
it, which for min-max scaling equals the lowest score that ranking did return.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from surefind.errors import SpecError
from surefind.spec import Stage
from surefind.types import PAD, Rankings

Floats = NDArray[np.float64]


def present(ranking: Rankings) -> NDArray[np.bool_]:
    return np.asarray(ranking.ordinals != PAD)


def min_max(ranking: Rankings) -> Floats:
    """Each row from 0 (its lowest) to 1 (its highest). A row of equal scores, or of one, is all 1: whatever
    was found is worth more than what was not."""
    there = present(ranking)
    scores = ranking.scores.astype(np.float64)
    low = np.min(scores, axis=1, keepdims=True, where=there, initial=np.inf)
    high = np.max(scores, axis=1, keepdims=True, where=there, initial=-np.inf)
    spread = high - low
    flat = ~(spread > 0)
    with np.errstate(invalid="ignore"):
        scaled = (scores - low) / np.where(flat, 1.0, spread)
    return np.where(there, np.where(flat, 1.0, scaled), 0.0)


def weights_for(stage: Stage, weights: tuple[float, ...] | None, rankings: Sequence[Rankings]) -> tuple[float, ...]:
    if weights is None:
        return (1.0,) * len(rankings)
    if len(weights) != len(rankings):
        names = ", ".join(ranking.source for ranking in rankings)
        raise SpecError(f"{stage} has {len(weights)} weights for {len(rankings)} rankings ({names}). Give one each.")
    return weights


def join(
    rankings: Sequence[Rankings],
    contributions: Sequence[Floats],
    k: int,
    source: str,
    times_found: bool = False,
) -> Rankings:
    """Sum the contributions per chunk and keep the best k of each query, ties by ordinal.

    With `times_found`, a sum is multiplied by the number of rankings that hold the chunk (CombMNZ).
    """
    ordinals = np.concatenate([ranking.ordinals for ranking in rankings], axis=1).astype(np.int64)
    gains = np.concatenate(contributions, axis=1)
    order = np.argsort(np.where(ordinals == PAD, np.iinfo(np.int64).max, ordinals), axis=1, kind="stable")
    ordinals = np.take_along_axis(ordinals, order, 1)
    gains = np.where(ordinals == PAD, 0.0, np.take_along_axis(gains, order, 1))

    first = np.ones(ordinals.shape, np.bool_)
    first[:, 1:] = ordinals[:, 1:] != ordinals[:, :-1]
    starts = np.flatnonzero(first)  # every row starts a run, so runs never cross rows
    sums = np.zeros(gains.size)
    if gains.size:
        sums[starts] = np.add.reduceat(gains.ravel(), starts)
        if times_found:
            sums[starts] *= np.diff([*starts, gains.size])
    # Sorted in the precision that is returned: what is equal there is in order of ordinal.
    scores = np.where(first & (ordinals != PAD), sums.reshape(gains.shape), -np.inf).astype(np.float32)

    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    scores = np.take_along_axis(scores, best, 1)
    ordinals = np.where(np.isneginf(scores), PAD, np.take_along_axis(ordinals, best, 1))
    width = int(np.max(np.count_nonzero(ordinals != PAD, axis=1), initial=0))
    return Rankings(ordinals[:, :width].astype(np.int32), scores[:, :width], source, "mixed")
