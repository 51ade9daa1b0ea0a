"""Tunes a knowledge base: races the candidates on one half of an exam, and confirms the winner on the other.

The questions are the ones that may choose (`bench.recommendation.chooses`): real questions, and questions in other
words than the document's. The race finds the survivors, and the one with the highest mean wins, or a cheaper one that
is as good (`bench.recommendation.economical`). The winner and the current configuration are then compared on the
held-out half. Few questions have no half to spare: all of them race, and the winner is not confirmed.

A race: candidates are scored on more and more questions, and those that will not win are dropped early.

The leader has the highest mean so far. After each block of questions, the difference of every survivor to the leader is
estimated. Before a question is asked, two candidates are believed to differ by nothing, give or take a spread; the mean
of the paired differences moves this belief (a normal prior and a normal likelihood). A candidate is dropped if it is
unlikely to be better than the leader by an amount that matters:

    d ~ N(0, 2 · 0.05²)    mean difference over n questions ~ N(d, s² / n)
    P(d > slack) < doubt                    slack = 0.0075 nDCG@10, doubt = 5%

The race ends when one candidate is left, or with the last question.

What this does to the error rate: the probability is a posterior one, so looking several times does not invalidate it
(the likelihood principle; Berger 1985, section 7.7). At each look, at most 5% of the dropped candidates are expected to
be better than the leader by more than the slack, as far as candidates differ like this. No candidate is dropped before
16 questions. The winner's own score is biased upwards by being chosen, so it is measured again on questions that the
race never saw, and that comparison makes no use of the prior.

Bounds that need no prior (paired t, Bonferroni over looks and rivals) were tried. They hold without assumptions, but
the race then asks 82% of the grid's questions, because most candidates are nearly equal. A prior from other collections
asked half as many questions as this one, and ended further behind (docs/results/tune.md).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from surefind.base.errors import ExamError
from surefind.base.prompts.values import money
from surefind.base.types import Floats
from surefind.lab.bench.engine import Bench
from surefind.lab.bench.latency import Timing
from surefind.lab.bench.plan import Contender, Plan, distinct
from surefind.lab.bench.recommendation import MARGIN, chooses, economical, most_lost
from surefind.lab.exam.model import Exam, ExamQuery, clusters_of, held_out
from surefind.lab.measure.ranks import Measure
from surefind.lab.measure.statistics import Interval, bootstrap, permutation_p
from surefind.lab.tune.space import TuningLimits, near

FIRST_BLOCK = 16
"""Questions of the first block."""
GROWTH = 1.5
"""The factor by which the number of questions grows from look to look. With 2, the race asks a sixth more questions."""
SLACK = 0.0075
DOUBT = 0.05
SPREAD = 0.05
"""The spread of candidates that are believed to be alike."""
_QUESTION = 0.25
_QUESTIONS = 4
"""The spread of one question's differences that is believed before any is asked, and how many questions that counts
for: candidates that scored alike on 16 questions may differ on the next."""
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

    def __init__(self, candidates: int, slack: float = SLACK, doubt: float = DOUBT) -> None:
        self._slack, self._doubt = slack, doubt
        self._scores: list[Floats] = []
        self.alive: list[int] = list(range(candidates))
        self.drops: list[Drop] = []
        self.means = np.full(candidates, np.nan)
        """The mean of each candidate over the questions that it was asked."""
        self.questions = np.zeros(candidates, dtype=np.int64)
        self.leader = 0
        """The survivor with the highest mean."""

    @property
    def scores(self) -> Floats:
        """The scores of the survivors on all questions so far, (questions, survivors)."""
        return np.concatenate([block[:, self.alive] for block in self._scores])

    @property
    def over(self) -> bool:
        """Whether more questions would change nothing."""
        return len(self.alive) == 1

    def add(self, scores: Floats) -> list[Drop]:
        """Adds the survivors' scores on a block of questions, (questions, survivors), and drops candidates."""
        block = np.full((len(scores), len(self.means)), np.nan)
        block[:, self.alive] = scores
        self._scores.append(block)
        asked = self.scores
        self.means[self.alive] = asked.mean(axis=0)
        self.questions[self.alive] = len(asked)
        best = int(np.argmax(self.means[self.alive]))
        self.leader = self.alive[best]
        gaps, spreads = behind(asked, best)
        chances = [1 - _NORMAL.cdf((self._slack - gap) / width) for gap, width in zip(gaps, spreads, strict=True)]
        dropped = [
            Drop(candidate, self.leader, len(asked), float(gaps[i]), chances[i])
            for i, candidate in enumerate(self.alive)
            if i != best and chances[i] < self._doubt and len(asked) >= FIRST_BLOCK
        ]
        lost = {drop.candidate for drop in dropped}
        self.alive = [candidate for candidate in self.alive if candidate not in lost]
        self.drops += dropped
        return dropped


def behind(scores: Floats, leader: int) -> tuple[Floats, Floats]:
    """What is believed of the differences to the leader: their means and spreads. `scores` is (questions,
    candidates)."""
    differences = scores - scores[:, [leader]]
    count, before = len(scores), 2 * SPREAD**2
    squares = ((differences - differences.mean(axis=0)) ** 2).sum(axis=0) + _QUESTIONS * _QUESTION**2
    error = squares / (count - 1 + _QUESTIONS) / count
    weight = before / (before + error)
    return weight * differences.mean(axis=0), np.sqrt(weight * error)


MIN_HALF = 2 * FIRST_BLOCK
"""Questions that may choose that a half must have. With fewer, no half is held out."""
_FINALISTS = 12
"""Survivors that may be timed, the best first."""


@dataclass(frozen=True)
class Standing:
    """The race after a block of questions, for a live view."""

    stage: str
    contenders: Sequence[Contender]
    race: Race
    dropped: Sequence[Drop]
    """The candidates that this block dropped."""
    total: int
    """Questions of the whole race."""
    seconds: float
    """How long it has taken so far."""
    left: float
    """The seconds that this stage still takes at most: as many as its last block took for each question and candidate,
    or until the time limit."""
    money: str
    """What language models have cost so far and may still cost, as text; empty if none were asked."""


OnStanding = Callable[[Standing], None]


@dataclass(frozen=True)
class Confirmed:
    """The winner against the current configuration, on questions that the race never saw."""

    questions: int
    winner: Interval
    current: Interval
    gain: Interval
    p: float

    @property
    def better(self) -> bool:
        """Whether the winner is better beyond noise."""
        return self.gain.low > 0


@dataclass
class Tuned:
    """What a race has found so far; complete if `stopped` is empty."""

    measure: str
    contenders: list[Contender] = field(default_factory=list)
    races: list[tuple[list[Contender], Race]] = field(default_factory=list)
    winner: Contender | None = None
    leader: Contender | None = None
    """The best of the race, which is not the winner if that costs less and is as good."""
    over: dict[str, str] = field(default_factory=dict)
    """Candidates beyond a limit, with the reason."""
    confirmed: Confirmed | None = None
    few: int = 0
    """How many questions there are, if these are too few to hold a half out."""
    stopped: str = ""
    """Why it ended early."""
    seconds: float = 0.0

    @property
    def kept(self) -> bool:
        """Whether the winner is the current configuration."""
        return self.winner is not None and str(self.winner) == str(self.contenders[0])

    @property
    def better(self) -> bool:
        """Whether the winner is another configuration than the current one and better beyond noise."""
        return self.confirmed is not None and self.confirmed.better and not self.kept


class Tuner:
    """One tuning run. `found` has the best so far at any time, also after Ctrl-C."""

    def __init__(
        self,
        bench: Bench,
        exam: Exam,
        measure: Measure,
        limits: TuningLimits,
        minutes: float | None = None,
        seed: int = 0,
        watch: OnStanding | None = None,
    ) -> None:
        self._bench = bench
        self._measure = measure
        self._limits = limits
        self._exam = exam
        self._watch: OnStanding = watch or (lambda standing: None)
        self._begun = time.monotonic()
        self._ends = None if minutes is None else self._begun + 60 * minutes
        self.found = Tuned(str(measure))
        self.tuning, self.held = halves(exam, seed)
        self.found.few = 0 if self.held else len(self.tuning)

    def run(self, contenders: Sequence[Contender]) -> Tuned:
        """Races the contenders, the current configuration first, then small steps around the winner, and confirms."""
        progress = self.found
        progress.contenders = list(contenders)
        try:
            self._race("all candidates", list(contenders))
            if progress.winner is not None and self.held and not self._late():
                steps = near(progress.winner)
                self._race("around the best", distinct([contenders[0], progress.winner, *steps]))
            if progress.winner is not None and self.held:
                progress.confirmed = self._confirm(progress.winner, contenders[0])
        finally:
            progress.seconds = time.monotonic() - self._begun
        return progress

    def _race(self, stage: str, contenders: list[Contender]) -> None:
        contenders = self._within(contenders)
        ends = blocks(len(self.tuning))
        race = Race(len(contenders))
        self.found.races.append((contenders, race))
        start = 0
        for end in ends:
            if start and self._late():
                self.found.stopped = "the time was over"
                break
            race_in = [contenders[i] for i in race.alive]
            began = time.monotonic()
            scores = self._score(race_in, self.tuning[start:end])
            pace = (time.monotonic() - began) / scores.size
            dropped = race.add(scores)
            self.found.winner = self.found.leader = contenders[race.leader]
            left = self._left(0.0 if race.over else pace * (len(self.tuning) - end) * len(race.alive))
            total, seconds = len(self.tuning), time.monotonic() - self._begun
            self._watch(Standing(stage, contenders, race, dropped, total, seconds, left, self._money()))
            start = end
            if race.over:
                break
        self._settle(contenders, race)

    def _score(self, contenders: Sequence[Contender], queries: Sequence[ExamQuery]) -> np.ndarray:
        exam = Exam(f"{self._exam.name}-tuning", tuple(queries), self._exam.version, self._exam.origin)
        scored = self._bench.score(Plan(tuple(contenders), exam, (self._measure,)))
        if len(scored.plan.exam.queries) != len(queries):
            raise ExamError("The documents changed during the race. Run it again.")
        return np.asarray(scored.scores[str(self._measure)], dtype=np.float64)

    def _settle(self, contenders: Sequence[Contender], race: Race) -> None:
        """Takes a survivor that costs less and is as good, if there is one. Only those that are as good are timed."""
        order = sorted(race.alive, key=lambda i: -race.means[i])[:_FINALISTS]
        finalists = [contenders[i] for i in order]
        losses = most_lost(race.scores[:, [race.alive.index(i) for i in order]], 0)
        equal = [i for i, loss in enumerate(losses) if loss <= MARGIN]
        timed = Plan(tuple(finalists[i] for i in equal), self._timing_exam(), (self._measure,))
        latency = dict(zip(equal, self._bench.latency(timed), strict=True)) if len(equal) > 1 else {}
        means, reranked = race.means[order].tolist(), [bool(finalist.pipeline.rerank) for finalist in finalists]
        self.found.winner = finalists[economical(0, means, losses, latency, reranked, range(len(order)))]

    def _within(self, contenders: Sequence[Contender]) -> list[Contender]:
        """The contenders within the limits; the current one always stays, since it is what the winner must beat."""
        if not self._limits.any or not contenders:
            return list(contenders)
        self._bench.build(Plan(tuple(contenders), self._timing_exam(), (self._measure,)))
        latency: Sequence[Timing | None] = [None] * len(contenders)
        if self._limits.needs_timing:
            latency = self._bench.latency(Plan(tuple(contenders), self._timing_exam(), (self._measure,)))
        kept = [contenders[0]]
        for contender, timing in zip(contenders[1:], latency[1:], strict=True):
            reason = self._limits.exceeded(timing, self._bench.index_bytes(contender))
            if reason:
                self.found.over[contender.name] = reason
            else:
                kept.append(contender)
        return kept

    def _timing_exam(self) -> Exam:
        return Exam(
            f"{self._exam.name}-timing", tuple(self.tuning[:FIRST_BLOCK]), self._exam.version, self._exam.origin
        )

    def _confirm(self, winner: Contender, current: Contender) -> Confirmed:
        scores = self._score([winner, current], self.held) if str(winner) != str(current) else None
        if scores is None:
            scores = np.repeat(self._score([current], self.held), 2, axis=1)
        clusters = clusters_of(self.held)
        gain = scores[:, [0]] - scores[:, [1]]
        first, second = bootstrap(scores, clusters=clusters)
        p = float(permutation_p(gain, clusters)[0])
        return Confirmed(len(self.held), first, second, bootstrap(gain, clusters=clusters)[0], p)

    def _left(self, seconds: float) -> float:
        return seconds if self._ends is None else max(0.0, min(seconds, self._ends - time.monotonic()))

    def _money(self) -> str:
        meter = self._bench.kb.services.llm.meter
        left = "" if meter.limit is None else f", {money(max(0.0, meter.limit - meter.spent.dollars))} left"
        return f", {money(meter.spent.dollars)} spent{left}" if meter.spent.calls else ""

    def _late(self) -> bool:
        return self._ends is not None and time.monotonic() > self._ends


def halves(exam: Exam, seed: int = 0) -> tuple[list[ExamQuery], list[ExamQuery]]:
    """The questions that may choose: a half to race on, in random order, and the half that is held out; all and none if
    there are few."""
    kept = [query for query in exam.queries if chooses(query)]
    out = held_out(kept)
    tuning = [query for query, held in zip(kept, out, strict=True) if not held]
    held = [query for query, hold in zip(kept, out, strict=True) if hold]
    if len(kept) < FIRST_BLOCK:
        raise ExamError(
            f"{exam.label} has {len(kept)} questions that may choose a configuration (real ones, or in other words "
            f"than the documents'); tuning needs at least {FIRST_BLOCK}, and {2 * MIN_HALF} to confirm a winner. "
            "Collect real questions with: surefind exam collect NAME FILE."
        )
    if min(len(tuning), len(held)) < MIN_HALF:
        tuning, held = kept, []
    random.Random(seed).shuffle(tuning)
    return tuning, held
