"""Statistics of per-query scores: intervals, paired tests, corrections, letters. All are deterministic.

- **Intervals**: paired bootstrap, 10,000 resamples of the queries, percentiles 2.5 and 97.5 (Sakai 2006).
- **Test of a pair**: sign-flip permutation of the per-query differences, two-sided, over all flips (`permutation.py`).
- **Clusters**: queries about the same document are not independent, so they are resampled and flipped together
  (`clusters.py`). Means stay means over queries.
- **Correction**: Holm over *all* pairs. The best configuration is picked after looking at the results; comparing only
  the best with the rest would mistake selection for a difference.
- **Proportions**: Wilson's interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from surefind.base.types import Floats
from surefind.lab.measure.clusters import Clusters, grouped, units
from surefind.lab.measure.permutation import permutation_p

RESAMPLES = 10_000
ALPHA = 0.05
_BLOCK = 1_000
"""Resamples computed at a time, to limit memory."""
_SEED = 20_240_607


@dataclass(frozen=True, slots=True)
class Interval:
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Configuration `a` against `b`: how much better a is, with the interval, and p before and after Holm."""

    a: int
    b: int
    difference: float
    low: float
    high: float
    p: float
    p_holm: float

    @property
    def significant(self) -> bool:
        return self.p_holm < ALPHA


def bootstrap(
    scores: Floats, resamples: int = RESAMPLES, seed: int = _SEED, clusters: Clusters | None = None
) -> list[Interval]:
    """The interval of each column's mean. `scores` is (queries, configurations); all share the resamples, which
    consist of whole clusters."""
    means = _resampled_means(scores, resamples, seed, clusters)
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    exact = [math.fsum(column) / len(column) for column in scores.T]  # independent of the other columns
    return [Interval(*map(float, row)) for row in zip(exact, low, high, strict=True)]


def bootstrap_of(
    statistic: Callable[[Floats], float],
    values: Floats,
    resamples: int = RESAMPLES,
    seed: int = _SEED,
    clusters: Clusters | None = None,
) -> Interval:
    """The interval of a statistic that is not a mean over questions, such as the area under a curve. Resamples keep the
    order of the values."""
    which = units(clusters, len(values))
    draws = _draws(int(which.max()) + 1, resamples, seed)
    low, high = np.percentile([statistic(np.repeat(values, counts[which])) for counts in draws], [2.5, 97.5])
    return Interval(statistic(values), float(low), float(high))


def _resampled_means(scores: Floats, resamples: int, seed: int, clusters: Clusters | None) -> Floats:
    """The mean of each configuration over the queries of each resample, (resamples, configurations)."""
    sums, sizes = grouped(scores, clusters)
    draws = _draws(len(sums), resamples, seed)
    blocks = (draws[at : at + _BLOCK].astype(np.float64) for at in range(0, resamples, _BLOCK))
    return np.concatenate([(block @ sums) / (block @ sizes)[:, None] for block in blocks])


@lru_cache(maxsize=3)
def _draws(n: int, resamples: int, seed: int) -> NDArray[np.uint16]:
    """How often each of n clusters is drawn in each resample; the same for all configurations."""
    rng = np.random.default_rng(seed)
    counts = np.empty((resamples, n), np.uint16)
    for at in range(0, resamples, _BLOCK):
        size = min(_BLOCK, resamples - at)
        drawn = rng.integers(0, n, size=(size, n), dtype=np.uint32) + (np.arange(size, dtype=np.uint32) * n)[:, None]
        counts[at : at + size] = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
    return counts


def compare_all(
    scores: Floats, resamples: int = RESAMPLES, seed: int = _SEED, clusters: Clusters | None = None
) -> list[Comparison]:
    """Compares every pair of columns, with Holm's correction over all pairs."""
    tested = _pairs(scores, resamples, seed, clusters)
    corrected = holm(np.array([c.p for c in tested])).tolist()
    return [replace(c, p_holm=p) for c, p in zip(tested, corrected, strict=True)]


def _pairs(scores: Floats, resamples: int, seed: int, clusters: Clusters | None) -> list[Comparison]:
    pairs = list(combinations(range(scores.shape[1]), 2))
    if not pairs:
        return []
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    differences = scores[:, first] - scores[:, second]
    p = permutation_p(differences, clusters)
    means = _resampled_means(scores, resamples, seed, clusters)
    low, high = np.percentile(means[:, first] - means[:, second], [2.5, 97.5], axis=0)
    return [
        Comparison(a, b, float(differences[:, i].mean()), float(low[i]), float(high[i]), float(p[i]), float(p[i]))
        for i, (a, b) in enumerate(pairs)
    ]


def holm(p: Floats) -> Floats:
    """Holm's step-down correction (1979): multiplies the i-th smallest of m by m - i + 1, then makes them monotone."""
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(len(p), 0, -1)
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected


def letters(means: Sequence[float], comparisons: Sequence[Comparison]) -> list[str]:
    """A compact letter display: two configurations share a letter exactly if they are statistically tied.

    Insert-and-absorb (Piepho 2004); the group of the best gets `a`.
    """
    groups: list[frozenset[int]] = [frozenset(range(len(means)))]
    for comparison in comparisons:
        if not comparison.significant:
            continue
        split: list[frozenset[int]] = []
        for group in groups:
            if comparison.a in group and comparison.b in group:
                split += [group - {comparison.a}, group - {comparison.b}]
            else:
                split.append(group)
        distinct = list(dict.fromkeys(split))
        groups = [group for group in distinct if not any(group < other for other in distinct)]
    ordered = sorted(groups, key=lambda group: sorted(-means[i] for i in group))
    return ["".join(_letter(g) for g, group in enumerate(ordered) if i in group) for i in range(len(means))]


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else f"({number + 1})"


def wilson(successes: int, trials: int, z: float = 1.96) -> Interval:
    """The score interval of a proportion (Wilson 1927)."""
    if trials == 0:
        return Interval(0.0, 0.0, 1.0)
    p = successes / trials
    centre = p + z * z / (2 * trials)
    spread = z * math.sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return Interval(p, max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale))
