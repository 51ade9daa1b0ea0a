"""A race: candidates are scored on more and more questions, and those that cannot win are dropped early.

After each block of questions, the leader is the surviving candidate with the highest mean. A candidate c is dropped if
it is not better than the leader by more than `slack`, with confidence:

    upper bound of c - leader = d + t(1 - a, n - 1) · s / √n  <  slack        a = alpha / (looks · (candidates - 1))

d is the mean of the n paired differences and s their standard deviation; questions about one document are one unit.

What this does to the error rate: the best candidate is lost only if some rival's bound excludes it at some look,
although it is better than that rival by more than the slack. Each such bound fails with probability a, and there are at
most `looks` of them for each of the other candidates. So, by the union bound (Bonferroni), the probability of dropping
a candidate that is better than all others by more than the slack is at most alpha, however the leader is chosen.
The bound assumes that means of n differences are nearly normal, so no candidate is dropped before 16 questions. The
winner's own score is biased upwards by being chosen; it is measured again on questions that the race never saw.

Maron and Moore, Hoeffding races, 1994; Birattari et al., A racing algorithm for configuring metaheuristics, 2002.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from surefind.measure.clusters import Clusters, grouped
from surefind.types import Floats

FIRST = 16
"""Questions of the first block; every later block doubles the number."""
ALPHA = 0.05


@dataclass(frozen=True)
class Drop:
    """A candidate that was dropped, and why."""

    candidate: int
    leader: int
    questions: int
    difference: float
    """Mean difference to the leader."""
    bound: float
    """Upper bound of the difference."""


def blocks(questions: int) -> list[int]:
    """How many questions have been asked after each block: 16, 32, 64, … and all."""
    ends = []
    size = FIRST
    while size < questions:
        ends.append(size)
        size *= 2
    return [*ends, questions] if questions else []


class Race:
    """The scores of candidates so far, and which of them are still in the race."""

    def __init__(self, candidates: int, looks: int, slack: float, alpha: float = ALPHA) -> None:
        self._scores: list[Floats] = []
        self._slack = slack
        self._level = alpha / max(1, looks * (candidates - 1))
        self.alive: list[int] = list(range(candidates))
        self.drops: list[Drop] = []
        self.means = np.full(candidates, np.nan)
        """The mean of each candidate over the questions that it was asked."""
        self.questions = np.zeros(candidates, dtype=np.int64)

    @property
    def leader(self) -> int:
        return max(self.alive, key=lambda i: (self.means[i], -i))

    @property
    def scores(self) -> Floats:
        """The scores of the survivors on all questions so far, (questions, survivors)."""
        return np.concatenate([block[:, self.alive] for block in self._scores])

    def add(self, scores: Floats, clusters: Clusters | None = None) -> list[Drop]:
        """Adds the survivors' scores on a block of questions, (questions, survivors), and drops candidates. `clusters`
        has the number of the gold document of each question so far."""
        block = np.full((len(scores), len(self.means)), np.nan)
        block[:, self.alive] = scores
        self._scores.append(block)
        known = self.scores
        self.means[self.alive] = known.mean(axis=0)
        self.questions[self.alive] = len(known)
        leader = self.leader
        differences = known - known[:, [self.alive.index(leader)]]
        bounds = upper_bounds(differences, self._level, clusters)
        dropped = [
            Drop(candidate, leader, len(known), float(differences[:, i].mean()), float(bounds[i]))
            for i, candidate in enumerate(self.alive)
            if candidate != leader and bounds[i] < self._slack
        ]
        lost = {drop.candidate for drop in dropped}
        self.alive = [candidate for candidate in self.alive if candidate not in lost]
        self.drops += dropped
        return dropped


def upper_bounds(differences: Floats, level: float, clusters: Clusters | None = None) -> Floats:
    """One-sided upper confidence bounds of the means of the columns."""
    sums, sizes = grouped(differences, clusters)
    units, mean = len(sums), differences.mean(axis=0)
    if units < FIRST:
        return np.full(differences.shape[1], math.inf)
    residuals = sums - sizes[:, None] * mean
    error = np.sqrt((residuals**2).sum(axis=0) * units / (units - 1)) / sizes.sum()
    return np.asarray(mean + t_quantile(1 - level, units - 1) * error)


def t_quantile(p: float, freedom: int) -> float:
    """The quantile of Student's t, by Cornish and Fisher's expansion around the normal quantile (Abramowitz and Stegun
    26.7.5); its error is below 1% from 15 degrees of freedom on, for tails down to 1e-5."""
    z, n = NormalDist().inv_cdf(p), float(freedom)
    terms: Sequence[float] = (
        z,
        (z**3 + z) / (4 * n),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3),
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4),
    )
    return sum(terms)
