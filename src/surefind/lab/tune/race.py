"""A race: candidates are scored on more and more questions, and those that will not win are dropped early.

After each block of questions, the belief about every survivor is computed as in a benchmark's recommendation: what is
known from other collections, updated by its scores so far (`bench.prior`). The leader has the highest expected score. A
candidate is dropped if it is unlikely to be better than the leader by an amount that matters:

    P(candidate - leader > slack) < doubt          slack = 0.0075 nDCG@10, doubt = 5%

The race ends when one candidate is left, or when to take the leader is expected to lose less than 0.002 nDCG@10 against
the best survivor: more questions would then change the choice between equals only.

What this does to the error rate: the probability is a posterior one, so looking several times does not invalidate it
(the likelihood principle; Berger 1985, section 7.7). At each look, at most 5% of the dropped candidates are expected to
be better than the leader by more than the slack, as far as the prior is right; docs/results/exam-validity.md shows how
its probabilities held on collections that it does not know. No candidate is dropped before 16 questions. The winner's
own score is biased upwards by being chosen, so it is measured again on questions that the race never saw, and that
comparison makes no use of the prior.

Bounds that need no prior (paired t, Bonferroni over looks and rivals) were tried. They hold without assumptions, but
the race then asks 82% of the grid's questions, because most candidates are nearly equal (docs/results/tune.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from surefind.base.types import Floats
from surefind.lab.bench.prior import Belief, evidence
from surefind.lab.bench.prior_table import Known

FIRST_BLOCK = 16
"""Questions of the first block."""
GROWTH = 1.5
"""The factor by which the number of questions grows from look to look. With 2, the race asks a sixth more questions."""
SLACK = 0.0075
DOUBT = 0.05
MAX_EXPECTED_LOSS = 0.002
"""Expected loss of the leader below which the race ends. On left-out collections this saves 9% of the questions and
loses nothing; with 0.003, 9% of races instead of 3% end more than a point behind the best."""
_DRAWS = 2_000
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Drop:
    """A candidate that was dropped, and why."""

    candidate: int
    leader: int
    questions: int
    difference: float
    """Expected difference to the leader."""
    chance: float
    """Probability that it is better than the leader by more than the slack."""


def blocks(questions: int) -> list[int]:
    """How many questions have been asked after each block: 16, 24, 36, 54, … and all."""
    ends = []
    size = FIRST_BLOCK
    while size < questions:
        ends.append(size)
        size = int(size * GROWTH)
    return [*ends, questions] if questions else []


class Race:
    """The scores of candidates so far, and which of them are still in the race."""

    def __init__(self, known: Known, slack: float = SLACK, doubt: float = DOUBT) -> None:
        size = len(known.belief.mean)
        self._known = known
        self._slack, self._doubt = slack, doubt
        self._scores: list[Floats] = []
        self.alive: list[int] = list(range(size))
        self.drops: list[Drop] = []
        self.means = np.full(size, np.nan)
        """The mean of each candidate over the questions that it was asked."""
        self.questions = np.zeros(size, dtype=np.int64)
        self.leader = 0
        """The survivor with the highest expected score."""
        self.loss = np.inf
        """What taking the leader is expected to lose against the best survivor."""

    @property
    def scores(self) -> Floats:
        """The scores of the survivors on all questions so far, (questions, survivors)."""
        return np.concatenate([block[:, self.alive] for block in self._scores])

    @property
    def over(self) -> bool:
        """Whether more questions would change nothing that matters."""
        return len(self.alive) == 1 or self.loss < MAX_EXPECTED_LOSS

    def add(self, scores: Floats) -> list[Drop]:
        """Adds the survivors' scores on a block of questions, (questions, survivors), and drops candidates."""
        block = np.full((len(scores), len(self.means)), np.nan)
        block[:, self.alive] = scores
        self._scores.append(block)
        asked = self.scores
        self.means[self.alive] = asked.mean(axis=0)
        self.questions[self.alive] = len(asked)
        belief = self._belief(asked)
        best = int(np.argmax(belief.mean))
        self.leader = self.alive[best]
        draws = belief.draws(_DRAWS)
        self.loss = float((draws.max(axis=1) - draws[:, best]).mean())
        gaps = belief.mean - belief.mean[best]
        own = np.diag(belief.covariance)
        spread = np.sqrt(np.maximum(own + own[best] - 2 * belief.covariance[:, best], 1e-12))
        chances = [1 - _NORMAL.cdf((self._slack - gap) / width) for gap, width in zip(gaps, spread, strict=True)]
        dropped = [
            Drop(candidate, self.leader, len(asked), float(gaps[i]), chances[i])
            for i, candidate in enumerate(self.alive)
            if i != best and chances[i] < self._doubt and len(asked) >= FIRST_BLOCK
        ]
        lost = {drop.candidate for drop in dropped}
        self.alive = [candidate for candidate in self.alive if candidate not in lost]
        self.drops += dropped
        return dropped

    def _belief(self, asked: Floats) -> Belief:
        """What is believed of the survivors, as differences to their mean: any one of them may be dropped later."""
        centre = np.eye(len(self.alive)) - 1 / len(self.alive)
        prior = Belief(centre @ self._known.belief.mean[self.alive], self._part(self._known.belief.covariance, centre))
        typical = self._part(self._known.per_question, centre)
        return prior.updated(evidence(np.asarray(asked @ centre), None, typical))

    def _part(self, covariance: Floats, centre: Floats) -> Floats:
        at: Sequence[int] = self.alive
        return np.asarray(centre @ covariance[np.ix_(at, at)] @ centre + 1e-9 * np.eye(len(at)))
