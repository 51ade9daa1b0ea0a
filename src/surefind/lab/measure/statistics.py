"""Statistics of per-query scores: intervals, paired tests, corrections, letters. All are deterministic.

- **Intervals**: paired bootstrap, 10,000 resamples of the queries, percentiles 2.5 and 97.5 (Sakai 2006).
- **Test of a pair**: sign-flip permutation of the per-query differences, two-sided, over all flips (`permutation.py`).
- **Clusters**: queries about the same document are not independent, so they are resampled and flipped together
  (`clusters.py`). Means stay means over queries.
- **Correction**: Holm over *all* pairs. The best configuration is picked after looking at the results; comparing only
  the best with the rest would mistake selection for a difference.
- **Proportions**: Wilson's interval.
- **Few tests of many questions**: the paired t-test, where a rule was measured with it (`bench.recommendation`).

The sign-flip permutation test of paired differences (Smucker et al. 2007), over all 2^n flips instead of a sample.

If two configurations are equally good, each difference is as likely to be negative as positive. p is the share of
flips whose sum is at least as far from zero as the observed sum.

Let the observed sum be positive. A flip reaches it exactly if the sizes of its negative differences add up to no more
than those of the observed negative ones. So p is twice the share of subsets of the sizes with a sum of at most this
limit. The sizes are rounded to a grid, and one pass over them counts the subsets for every sum on the grid (Pagano and
Tritchler 1983). All terms are positive, so the smallest p-values are as precise as the largest. Against enumeration,
p-values of nDCG differences are 0 to 2% too large.

Clusters: groups of questions that are not independent, such as the questions about one document.

If a configuration finds a document badly, it does so for all questions about it. Ten questions about one document are
therefore less evidence than ten questions about ten documents. Intervals resample whole clusters, and the permutation
test flips whole clusters (Cameron, Gelbach and Miller 2008 describe the bootstrap of clusters). With fewer than
`MIN_CLUSTERS` clusters there is too little to resample: with one cluster, every interval would have a width of zero.
Then each question counts on its own, and the results say nothing about documents other than these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from surefind.base.types import Floats
from surefind.lab.exam.model import MIN_CLUSTERS

Clusters = NDArray[np.int64]
"""The number of each question's cluster."""


def units(clusters: Clusters | None, n: int) -> Clusters:
    """The number of what each of n questions is resampled with: its cluster, or itself if there are too few."""
    if clusters is not None:
        numbers, which = np.unique(clusters, return_inverse=True)
        if MIN_CLUSTERS <= len(numbers) < n:
            return which
    return np.arange(n)


def grouped(values: Floats, clusters: Clusters | None) -> tuple[Floats, Floats]:
    """Sums the rows of `values` within each cluster; also returns how many rows each cluster has."""
    which = units(clusters, len(values))
    sizes = np.bincount(which)
    if len(sizes) == len(values):
        return values, np.ones(len(values))
    sums = np.zeros((len(sizes), values.shape[1]))
    np.add.at(sums, which, values)
    return sums, sizes.astype(np.float64)


_CELLS = 2_048
"""Fewest cells of the grid."""
_WORK = 2**19
"""Cells times differences: a column with few differences gets a finer grid."""
_MAX_CELLS = 2**15
"""Most cells of the grid."""
_GRIDS = 16
"""Grids that are tried; the one that changes the test statistic least is used."""
_NOISE = 1e-9
"""A difference this much smaller than the largest one is a rounding error."""
_SLACK = 0.01
"""How much larger p may become so that sums tied with the limit are counted on either side of it."""
_SCALE = 256
"""Differences after which counts are scaled down, so that they do not overflow."""
_SMALLEST = 1e-290
"""Smaller shares are rounded: arithmetic with them is slow, and they change no result."""


def permutation_p(differences: Floats, clusters: Clusters | None = None) -> Floats:
    """The two-sided p of each column of paired differences. Differences of one cluster are flipped together."""
    sums, _ = grouped(differences, clusters)
    return np.array([_p(column) for column in sums.T])


def _p(differences: Floats) -> float:
    sizes = np.abs(differences)
    differences = differences[sizes > _NOISE * sizes.max(initial=0.0)]
    observed = differences.sum()
    if abs(observed) <= _NOISE * sizes.sum():
        return 1.0
    differences = differences[np.argsort(np.abs(differences), kind="stable")]
    sizes, signs = np.abs(differences), np.sign(differences) * np.sign(observed)
    if (signs > 0).all():
        return max(2.0 ** (1 - len(sizes)), _SMALLEST)
    steps, slack = _on_grid(sizes, signs)
    limit = int(steps[signs < 0].sum()) + slack
    return min(1.0, max(2 * _share(steps, limit), _SMALLEST))


def _on_grid(sizes: Floats, signs: Floats) -> tuple[NDArray[np.int64], int]:
    """The sizes, rounded to a grid, and by how many cells to raise the limit for sums that are tied with it."""
    limit, least = sizes[signs < 0].sum(), sizes[0]
    cells = max(_CELLS, min(_MAX_CELLS, _WORK // len(sizes)))
    multiples = np.rint(sizes / least)
    if limit / least <= cells and np.abs(sizes / least - multiples).max() < 1e-6:
        return multiples.astype(np.int64), 0  # all are multiples of the smallest, such as ±1: nothing is rounded
    spread = math.sqrt(sizes @ sizes)
    z = (sizes @ signs) / spread
    widths = limit / cells * np.linspace(1, 1.1, _GRIDS)
    rounded = [np.rint(sizes / width) for width in widths]
    errors = [abs((steps @ signs) / math.sqrt(steps @ steps) - z) for steps in rounded]
    best = int(np.argmin(errors))
    # Rounding moves a sum of n sizes by about sqrt(n / 12) cells. log p grows by about 2 z / spread for each unit.
    slack = min(math.ceil(math.sqrt(len(sizes))), _SLACK * spread / (2 * z * widths[best]))
    return rounded[best].astype(np.int64), int(slack)


def _share(steps: NDArray[np.int64], limit: int) -> float:
    """The share of all subsets of `steps`, which are sorted, that add up to at most `limit`."""
    counts, other = np.zeros(limit + 1), np.zeros(limit + 1)
    counts[0] = 1.0
    reached, taken = 1, 0
    for step in steps[steps <= limit].tolist():
        to = min(limit + 1, reached + step)
        other[:step] = counts[:step]
        np.add(counts[step:to], counts[: to - step], out=other[step:to])
        counts, other, reached, taken = other, counts, to, taken + 1
        if taken % _SCALE == 0:
            counts *= 2.0**-_SCALE
            counts[counts < _SMALLEST] = 0.0
    return float(counts.sum()) * 2.0 ** (taken // _SCALE * _SCALE - len(steps))


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


def paired_t(differences: Floats, confidence: float = 0.95) -> list[Interval]:
    """The mean of each column of paired differences, with its interval by Student's t. The interval leaves out zero
    exactly if a paired t-test, two-sided at the level 1 - confidence, finds a difference."""
    count = len(differences)
    width = t_quantile((1 + confidence) / 2, count - 1) / math.sqrt(count) * differences.std(axis=0, ddof=1)
    return [
        Interval(mean, mean - half, mean + half)
        for mean, half in zip(differences.mean(axis=0).tolist(), width.tolist(), strict=True)
    ]


def t_quantile(p: float, freedom: int) -> float:
    """The quantile of Student's t by its expansion around the normal one (Fisher and Cornish 1960): with nine degrees
    of freedom and p = 0.975 it is 0.0004 too small, with more it is closer."""
    z = NormalDist().inv_cdf(p)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return float(sum(term / freedom**power for power, term in enumerate(terms)))


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
