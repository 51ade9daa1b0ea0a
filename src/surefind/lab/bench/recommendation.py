"""Recommends a configuration: the default, unless real questions show a significant gain.

The default is the configuration that searches use. Another row takes its place if it is better in a paired t-test on
the exam's real questions, two-sided with p < 0.05; of several such rows, the one with the highest mean. Questions
written from the documents repeat their words and would choose wrongly, so they do not count. Nor does anything that is
known from other collections: a prior over them was measured, and lost more (docs/results/exam-validity.md).

Two things may take a row's place that costs less:

- **Rerankers** must gain more than the margin over the best row without one: a search takes many times as long, and
  smaller differences do not matter to users. Measured times do not decide this.
- **A faster row** is taken if it is as good: if it is not worse by more than the margin (a one-sided 95% bound of the
  paired difference). "Not significantly worse" is no reason, because a short exam finds nothing significant. A row
  counts as faster only if somebody notices: if a search takes at least 20 ms and a fifth less, beyond the noise of the
  timings. The text says times in rough words, so that the same exam gives the same verdict in the same words.

The winner of the exam has the highest mean over all questions. Choosing it by that mean biases the mean upwards, so the
text also gives an unbiased figure: the best configuration on one half of the questions, scored on the other half.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from surefind.base.types import Floats
from surefind.engine.search.pipeline import Pipeline
from surefind.kb.settings.config import Settings
from surefind.kb.settings.template import BASES
from surefind.lab.bench.latency import Timing
from surefind.lab.bench.plan import Contender, identity
from surefind.lab.exam.known_item import EVERY
from surefind.lab.exam.model import ExamQuery
from surefind.lab.measure.statistics import Comparison, Interval, paired_t

MARGIN = 0.015
"""Differences up to this do not matter to users: a configuration within it is as good."""
MIN_QUESTIONS = 10
"""Real questions that are needed to choose."""
WRITTEN = frozenset({"heading_paraphrase", "sf1h", "sf2h", "mf2h"})
"""Families that are written in other words than the document's: by rules, or by a language model. They may tune and
train, whose results are confirmed on other questions; they do not choose what is recommended."""
LOSSES = {0: (0.7, 4.8), 30: (0.3, 0.9), 75: (0.3, 0.7), 150: (0.3, 0.6), 300: (0.2, 0.6)}
"""What the rule lost on eleven collections against the best of 29 rows, in points of nDCG@10, by the number of real
questions: the mean, and the worst collection. Measured with `pair` as the default (docs/results/exam-validity.md)."""
_POWER = 1.960 + 0.842
"""Two-sided 5% level and 80% power, in standard errors."""


@dataclass(frozen=True)
class DefaultRow:
    """The row that stays unless another one is significantly better."""

    row: int
    absent: str = ""
    """The name of the configuration in use if it is not in the table: the row then stands for it."""
    measured: bool = False
    """Whether it is the built-in `pair`, whose loss was measured on other collections."""


@dataclass(frozen=True)
class Recommendation:
    default: DefaultRow
    best: int
    """The best of the default and the rows that are significantly better."""
    real: int
    """Real questions of the exam."""
    written: int
    """Its other questions, which do not choose."""
    gains: list[Interval]
    """For each row, what it gains over the default on the real questions; empty if there are too few."""
    losses: list[float]
    """For each row, the most that it loses against the best: a one-sided 95% bound; empty if there are too few."""
    rival: int | None
    """The row with the highest gain that is not significant, if the default is the best."""
    decisive: int | None
    """The real questions that would show a gain of the margin for it; None if that many were asked."""

    @property
    def candidates(self) -> list[int]:
        """The default, and the rows that are significantly better."""
        return [i for i, gain in enumerate(self.gains) if i == self.default.row or gain.low > 0]

    @property
    def means(self) -> list[float]:
        return [gain.mean for gain in self.gains]


def default_row(contenders: Sequence[Contender], settings: Settings) -> DefaultRow:
    """Finds the configuration in use. If it is not compared, the first row without a reranker stands for it, of the
    layout in use if there is one."""
    in_use = identity(Contender("", settings.named(settings.pipeline)))
    own = [contender.layout in (None, settings.layout) for contender in contenders]
    same = [own[i] and identity(replace(contender, layout=None)) == in_use for i, contender in enumerate(contenders)]
    if any(same):
        return DefaultRow(same.index(True), "", in_use == str(Pipeline.parse(BASES["pair"])))
    row = min(range(len(own)), key=lambda i: (not own[i], bool(contenders[i].pipeline.rerank), i))
    return DefaultRow(row, settings.pipeline)


def recommend(scores: Floats, queries: Sequence[ExamQuery], default: DefaultRow) -> Recommendation:
    """Recommends a row. `scores` has the measure of each question, (questions, rows)."""
    real = np.array([is_real(query) for query in queries], dtype=bool)
    asked = np.asarray(scores, dtype=np.float64)[real]
    counts = len(asked), len(queries) - len(asked)
    if len(asked) < MIN_QUESTIONS:
        return Recommendation(default, default.row, *counts, [], [], None, None)
    differences = asked - asked[:, [default.row]]
    gains = paired_t(differences)
    best = max((i for i, gain in enumerate(gains) if i == default.row or gain.low > 0), key=lambda i: gains[i].mean)
    highest = max(range(len(gains)), key=lambda i: gains[i].mean)
    rival = highest if best == default.row and gains[highest].mean > 0 else None
    decisive = None if rival is None else _decisive(differences[:, rival])
    return Recommendation(default, best, *counts, gains, most_lost(asked, best), rival, decisive)


def _decisive(differences: Floats) -> int | None:
    """How many questions show a gain of the margin with 80% power, at the 5% level: n = (1.96 + 0.84)² σ² / margin²,
    in two digits. None if there are as many."""
    needed = math.ceil((_POWER * float(differences.std(ddof=1)) / MARGIN) ** 2)
    return int(float(f"{needed:.2g}")) if needed > len(differences) else None


def most_lost(scores: Floats, best: int) -> list[float]:
    """The most that each row loses against the best on these questions, with 95% confidence (one-sided)."""
    return [lead.high for lead in paired_t(scores[:, [best]] - scores, confidence=0.9)]


def is_real(query: ExamQuery) -> bool:
    """Whether somebody asked the question: only such questions choose what is recommended."""
    return query.family not in EVERY and query.family not in WRITTEN


def chooses(query: ExamQuery) -> bool:
    """Whether a question may tune and train: questions that repeat the words of their document may not."""
    return is_real(query) or query.family in WRITTEN


def basis(names: Sequence[str], advice: Recommendation, chosen: int, latency: Mapping[int, Timing]) -> str:
    """What a recommendation rests on, and the loss to expect, in one line."""
    default, asked = names[advice.default.row], f"{advice.real} real question{'s' if advice.real > 1 else ''}"
    if not advice.gains:
        few = (
            f"The exam has only {asked}, and {MIN_QUESTIONS} are needed"
            if advice.real
            else "No real question was asked"
        )
        if advice.default.absent:
            return f"{few}, and {advice.default.absent}, the default, is not in this table: {default} stands for it."
        return f"{few}, so this is the default{_without_questions(advice)}"
    default += ", which stands for the default" if advice.default.absent else ", the default"
    best, over = names[advice.best], f"Over your {asked}"
    if chosen != advice.best:
        gain, most = advice.means[advice.best] - advice.means[chosen], _points(advice.losses[chosen])
        more = f"only {_points(gain)} points more (at most {most})" if gain >= 0 else f"{_points(-gain)} points less"
        return f"{over} {best} scores {more}, and its searches take {_longer(names, advice.best, chosen, latency)}."
    if advice.best == advice.default.row:
        return f"{over} no row is significantly better than {default}.{_with_questions(advice)}"
    return f"{over} {best} scores {_gain(advice.gains[advice.best])} more than {default}.{_with_questions(advice)}"


def _without_questions(advice: Recommendation) -> str:
    """What the default may lose."""
    if not advice.default.measured:
        return ". 30 real questions show whether another row is much better."
    (mean, worst), (later, _) = LOSSES[0], LOSSES[30]
    return (
        f"; on eleven collections with real questions it was {mean} points of nDCG@10 below the best of 29 rows on "
        f"average, {worst} in the worst. 30 real questions would cut that to {later}."
    )


def _with_questions(advice: Recommendation) -> str:
    """What a choice by so many questions may lose; "" if the rule was not measured with this default."""
    if not advice.default.measured:
        return ""
    questions = max(30, *(count for count in LOSSES if count <= advice.real))
    mean, worst = LOSSES[questions]
    return (
        f" On eleven collections with {questions} questions each, such a choice was {mean} points of nDCG@10 below the "
        f"best of 29 rows on average, {worst} in the worst."
    )


def describe(names: Sequence[str], advice: Recommendation) -> str:
    """What did not choose, and what would."""
    default, lines = names[advice.default.row], []
    if advice.default.absent and advice.gains:
        lines.append(f"{advice.default.absent}, the default, is not in this table, so {default} stands for it.")
    if advice.rival is not None:
        text = (
            f"{names[advice.rival]} scores {_gain(advice.gains[advice.rival])} more than {default}, which may be noise."
        )
        if advice.decisive:
            text += f" About {advice.decisive} real questions would show a gain of {_points(MARGIN)} points."
        lines.append(text)
    if advice.written:
        lines.append(f"The {advice.written} questions that were written from the documents do not choose.")
    return " ".join(lines)


def _points(value: float) -> str:
    return f"{round(100 * value, 1) + 0.0:.1f}"  # no minus before a zero


def _gain(interval: Interval) -> str:
    return f"{_points(interval.mean)} points [{_points(interval.low)}, {_points(interval.high)}]"


_NOTICED = 20.0
"""Milliseconds of a search that somebody notices."""
_SHARE = 0.2
"""The share of a search that must be saved."""
_LONGER = ((10.0, "more than ten times as long as"), (2.0, "more than twice as long as"), (0.0, "longer than"))
"""How many times as long a search takes, and the words for it."""


@dataclass(frozen=True)
class Verdict:
    winner: int
    ties: tuple[int, ...]
    recommended: int
    text: str
    """What to use, and what that rests on: a line each."""
    details: tuple[str, ...] = ()
    """What explains it: what another configuration costs and gains, what did not choose, and what the exam shows."""


def decide(
    names: Sequence[str],
    measure: str,
    scores: Floats,
    held_out: Sequence[bool],
    comparisons: Sequence[Comparison],
    intervals: Sequence[Interval],
    held_out_intervals: Sequence[Interval],
    latency: Mapping[int, Timing],
    advice: Recommendation | None,
    reranked: Sequence[bool] = (),
) -> Verdict:
    """Picks the configuration to use, the winner of the exam and its ties, and explains them.

    `advice` is None if there is only one configuration. `reranked` says which have a reranker. Empty: none. `latency`
    has those that were timed, by their place."""
    winner = _best(scores)
    worse = _beats(winner, comparisons)
    better = {i for i in range(len(names)) if winner in _beats(i, comparisons)}
    ties = tuple(i for i in range(len(names)) if i != winner and i not in worse | better)
    exam = _about_winner(names, measure, winner, len(worse), ties, intervals[winner])
    if len(names) > 1 and any(held_out) and not all(held_out):
        picked = _best(scores[~np.array(held_out)])
        shown = _estimate(held_out_intervals[picked])
        exam += f" The best on one half of the questions, {names[picked]}, scores {shown} on the other half."
    if advice is None:
        return Verdict(winner, ties, winner, exam)
    slow = reranked or [False] * len(names)
    chosen = economical(advice.best, advice.means, advice.losses, latency, slow, advice.candidates)
    text = "\n".join([f"Use {names[chosen]}.", basis(names, advice, chosen, latency)])
    price, why = _price(names, measure, advice, chosen, latency, slow), describe(names, advice)
    return Verdict(winner, ties, chosen, text, tuple(filter(None, [price, why, f"On this exam: {exam}"])))


def _best(scores: Floats) -> int:
    return int(np.argmax(scores.mean(axis=0)))


def economical(
    best: int,
    means: Sequence[float],
    losses: Sequence[float],
    latency: Mapping[int, Timing],
    reranked: Sequence[bool],
    candidates: Sequence[int],
) -> int:
    """The row that takes the place of the best one because it costs less; the best itself if there is none.

    A best row with a reranker must gain more than the margin over the best of the `candidates` without one. Otherwise
    the best of the fastest rows is taken that are clearly faster and do not lose more than the margin."""
    plain = [i for i in candidates if reranked[best] and not reranked[i]]
    first = max(plain, key=lambda i: means[i], default=best)
    if first != best and means[best] - means[first] <= MARGIN:
        return first
    faster = [
        i
        for i, loss in enumerate(losses)
        if loss <= MARGIN and {i, best} <= latency.keys() and _is_faster(latency[i], latency[best])
    ]
    quickest = min(faster, key=lambda i: latency[i].p50, default=best)
    alike = [i for i in faster if not _is_faster(latency[quickest], latency[i])]
    return max(alike, key=lambda i: means[i], default=best)


def _is_faster(timing: Timing, other: Timing) -> bool:
    """Whether somebody notices that a search is faster, whatever else the machine does."""
    return timing.p50_high < other.p50_low and other.p50 - timing.p50 >= max(_NOTICED, _SHARE * other.p50)


def _longer(names: Sequence[str], slow: int, fast: int, latency: Mapping[int, Timing]) -> str:
    """How much longer the slower of two searches takes, in words that two runs share."""
    words = next(words for least, words in _LONGER if latency[slow].p50 >= least * latency[fast].p50)
    return f"{words} with {names[fast]}"


def _price(
    names: Sequence[str],
    measure: str,
    advice: Recommendation,
    chosen: int,
    latency: Mapping[int, Timing],
    reranked: Sequence[bool],
) -> str:
    """What the best row costs and gains, beside the chosen one; if that is the best and has a reranker, beside the best
    without one. "" if there is nothing to weigh."""
    best = advice.best
    fast = [i for i in range(len(advice.means)) if reranked[best] and not reranked[i]]
    if chosen == best and not fast:
        return ""
    other = max(fast, key=lambda i: advice.means[i]) if chosen == best else chosen
    gain = advice.means[best] - advice.means[other]
    more = f"{_points(abs(gain))} points of {measure} {'more' if gain >= 0 else 'less'} than {names[other]}"
    text = f"{names[best]} scores {more}, and a search takes {_longer(names, best, other, latency)}."
    if chosen == best or gain < 0:
        return text
    return f"{text} If that is no problem: surefind use {shlex.quote(names[best])}."


def _beats(i: int, comparisons: Sequence[Comparison]) -> set[int]:
    """The configurations that configuration i is significantly better than."""
    beaten = set()
    for c in comparisons:
        if c.significant and i in (c.a, c.b):
            better, worse = (c.a, c.b) if c.difference > 0 else (c.b, c.a)
            if better == i:
                beaten.add(worse)
    return beaten


def _estimate(interval: Interval) -> str:
    return f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _about_winner(
    names: Sequence[str], measure: str, winner: int, worse: int, ties: Sequence[int], interval: Interval
) -> str:
    score = f"{measure} {_estimate(interval)}"
    if len(names) == 1:
        return f"{names[winner]} scores {score}. There is no other configuration to compare it with."
    tied = f"statistically tied with {listed([names[i] for i in ties], 4)}"
    if not worse:
        return f"{names[winner]} is best ({score}), but its lead is not significant: it is {tied}."
    others = len(names) - 1
    text = f"{names[winner]} is best ({score}). It is significantly better than "
    if ties:
        return f"{text}{worse} of {others} others and {tied}."
    return text + (f"all {others} others." if others > 1 else "the other configuration.")


def listed(items: Sequence[str], most: int) -> str:
    """`a, b and c`; beyond `most` items, `a, b and 3 more`."""
    if len(items) > most:
        return f"{', '.join(items[:most])} and {len(items) - most} more"
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))
