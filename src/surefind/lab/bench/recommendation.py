"""Recommends the configuration that should serve *real* questions best, and says how sure that is.

Questions written from the documents repeat their words and would choose wrongly, so the recommendation starts from a
prior: how each configuration did on real questions of other collections (`prior_table`). The exam's questions then
count by what their kind has been measured to be worth: real questions by their sampling error alone, questions in other
words than the document's with an error on top, verbatim questions not at all (`prior` has the arithmetic).

Names the configuration to use, how sure that is, and the winner of the exam, as numbers and as text.

The recommendation is the configuration that should serve real questions best (`recommendation`). A faster one takes its
place if it is as good: if it is not worse by more than the margin, with a probability of 95%. "Not significantly worse"
is no reason, because a short exam finds nothing significant. A configuration counts as faster only if somebody notices:
if a search takes at least 20 ms and a fifth less, beyond the noise of the timings. A configuration with a reranker must
be expected to gain more than the margin over the best without one: a search takes many times as long, and smaller
differences do not matter to users. The details name it and its gain. Measured times do not decide this, and the text
says them in rough words, so that the same exam gives the same verdict in the same words; the table has the
milliseconds.

The winner has the highest mean over all questions. Choosing it by that mean biases the mean upwards, so the text also
gives an unbiased figure: the best configuration on one half of the questions, scored on the other half.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from surefind.base.types import Floats
from surefind.lab.bench.latency import Timing
from surefind.lab.bench.prior import (
    MEASURE,
    Belief,
    Choice,
    Kind,
    choose,
    collections,
    design_effect,
    evidence,
    known,
    regret_after,
    sampling_error,
)
from surefind.lab.exam.known_item import EVERY
from surefind.lab.exam.model import ExamQuery, clusters_of
from surefind.lab.measure.statistics import Comparison, Interval

MARGIN = 0.015
"""Differences up to this do not matter to users: a configuration within it is as good. Chosen by measurement
(docs/results/exam-validity.md)."""
AS_GOOD = 0.95
"""The probability of not being worse by more than the margin that makes a configuration count as equally good."""
_MIN_QUESTIONS = 10
"""Questions of a kind that are needed to count; the covariance of fewer is too uncertain."""
WRITTEN = frozenset({"heading_paraphrase", "sf1h", "sf2h", "mf2h"})
"""Families that are written in other words than the document's: by rules, or by a language model. Too few collections
have them beside real questions to measure their error, so they count like the real questions of another collection.
Other families of known-item questions never choose."""
_REAL = "real"
_POWER = 1.645 + 0.842
"""One-sided 5% level and 80% power, in standard errors."""
_MORE = (5, 10, 20, 40, 80, 160, 320, 640)


@dataclass(frozen=True)
class Recommendation:
    best: int
    """The configuration with the highest expected score on real questions."""
    within: float
    """Probability that no configuration is better by more than the margin on real questions."""
    regret: float
    """Expected loss against the best configuration, on the scale of the measure (0 to 1)."""
    more: int | None
    """Real questions that would halve the expected loss; None if it is negligible or would take too many."""
    means: list[float]
    """Posterior mean of each configuration's difference to the default pipeline."""
    as_good: list[float]
    """For each configuration, the probability that it is not worse than the best by more than the margin."""
    real: int
    """Real questions of the exam that counted."""
    other: dict[str, int]
    """Questions of other kinds that counted, by family."""
    unknown: list[int]
    """Configurations with a part that was not measured on other collections."""
    rival: int
    """The configuration that is most likely to be better by more than the margin."""
    decisive: int | None
    """More real questions that would tell it from the best; None if the recommendation is sure enough."""
    margin: float = MARGIN
    measure: str = MEASURE

    @property
    def equals(self) -> list[int]:
        """The best configuration, and those that are not worse by more than the margin (probability `AS_GOOD`)."""
        return [i for i, probability in enumerate(self.as_good) if i == self.best or probability >= AS_GOOD]


def recommend(
    specs: Sequence[str],
    scores: Floats,
    queries: Sequence[ExamQuery],
    layouts: Sequence[str] = (),
    measure: str = MEASURE,
    margin: float = MARGIN,
) -> Recommendation:
    """Recommends one of the configurations with these pipeline specs, and layouts if they differ.

    `scores` has the measure of each question, (questions, configurations)."""
    start = known(specs, layouts, measure)
    belief, per_question = start.belief, start.per_question
    differences = np.asarray(scores, dtype=np.float64) @ start.against.T
    groups = np.array(evidence_groups(queries))
    clusters = clusters_of(queries)
    counted: dict[str, int] = {}
    for group in dict.fromkeys(groups.tolist()):
        part = differences[groups == group]
        effect = design_effect(part, clusters[groups == group])
        if group:
            counted[group] = len(part)
            kind = None if group == _REAL else Kind(np.zeros(len(specs)), start.belief.covariance)
            belief = belief.updated(evidence(part, kind, start.per_question, effect))
    choice = choose(belief, margin, start.default)
    real = counted.pop(_REAL, 0)
    if real:
        per_question = real * sampling_error(differences[groups == _REAL], per_question)
    return Recommendation(
        choice.best,
        choice.within,
        choice.regret,
        _halving(belief, per_question, choice, margin),
        belief.mean.tolist(),
        choice.as_good,
        real,
        counted,
        start.unknown,
        choice.rival,
        _decisive(per_question, choice, margin, real),
        margin,
        measure,
    )


def percent(probability: float) -> str:
    return "more than 99%" if probability > 0.99 else f"{probability:.0%}"


def probability(names: Sequence[str], advice: Recommendation, chosen: int, longer: str = "longer") -> str:
    """How sure it is that `chosen` is the one to use, in one sentence. Another one than the best takes its place only
    if searches with the best take `longer`."""
    points = f"{100 * advice.margin:g} points"
    if chosen == advice.best:
        text = (
            f"With {percent(advice.within)} probability nothing in this table is better than {names[chosen]} by more "
            f"than {points} on real questions"
        )
    else:
        text = (
            f"With {percent(advice.as_good[chosen])} probability {names[advice.best]}, whose searches take {longer}, "
            f"is not better than {names[chosen]} by more than {points} on real questions"
        )
    more = f"; {advice.more} {'more ' if advice.real else ''}real questions would halve the doubt"
    return text + (more if advice.more else "") + "."


def describe(names: Sequence[str], advice: Recommendation, collections: int) -> str:
    """What the probability rests on, and what would make it surer."""
    best = names[advice.best]
    text = (
        f"{best} has the highest expected {advice.measure} on real questions; the expected loss with it is "
        f"{100 * advice.regret:.1f} points."
    )
    basis = [f"real questions on {collections} other collections"]
    if advice.real:
        basis.append(f"{advice.real} real questions of this exam")
    basis += [f"{count} {family} questions" for family, count in advice.other.items()]
    text += f" This rests on {' and '.join(filter(None, [', '.join(basis[:-1]), basis[-1]]))}"
    text += "." if advice.real else "; questions cut from the documents do not choose."
    if advice.decisive:
        more = " more" if advice.real else ""
        text += f" About {advice.decisive}{more} real questions would tell {best} from {names[advice.rival]}."
    if advice.unknown:
        listed = ", ".join(names[i] for i in advice.unknown[:4])
        text += f" Not measured on other collections: {listed}{' …' if len(advice.unknown) > 4 else ''}."
    return text


def chooses(query: ExamQuery) -> bool:
    """Whether a question may choose a configuration: questions that repeat the words of their document may not."""
    return bool(_group(query))


def evidence_groups(queries: Sequence[ExamQuery]) -> list[str]:
    """The group in which each question counts as evidence; "" for questions that do not count: those that never choose,
    and those of a group that is too small."""
    groups = [_group(query) for query in queries]
    sizes = Counter(groups)
    return [group if sizes[group] >= _MIN_QUESTIONS else "" for group in groups]


def _group(query: ExamQuery) -> str:
    """`real`, the family if it counts as evidence, or "" for a question that never chooses."""
    if query.family in WRITTEN:
        return query.family
    if query.family in EVERY:
        return ""
    return _REAL


def _decisive(per_question: Floats, choice: Choice, margin: float, real: int) -> int | None:
    """How many more real questions show with 80% power, at the 5% level, that the rival is not better by more than the
    margin if both are equal: n = (1.645 + 0.842)² σ² / margin², with σ² of one question's difference."""
    if choice.within >= AS_GOOD:
        return None
    a, b = choice.best, choice.rival
    variance = per_question[a, a] + per_question[b, b] - 2 * per_question[a, b]
    wanted = math.ceil(_POWER**2 * max(float(variance), 0.0) / margin**2) - real
    return int(float(f"{wanted:.2g}")) if wanted > 0 else None


def _halving(belief: Belief, per_question: Floats, choice: Choice, margin: float) -> int | None:
    if choice.regret < margin / 10:
        return None
    return next((n for n in _MORE if regret_after(belief, per_question, n) <= choice.regret / 2), None)


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
    """What to use, and how sure that is: a line each."""
    details: tuple[str, ...] = ()
    """What explains it: what another configuration costs and gains, what it rests on, and what the exam shows."""


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
    chosen = fastest(advice, latency, slow)
    text = "\n".join([f"Use {names[chosen]}.", _how_sure(names, advice, chosen, latency)])
    price, why = _price(names, advice, chosen, latency, slow), describe(names, advice, collections())
    return Verdict(winner, ties, chosen, text, tuple(filter(None, [price, why, f"On this exam: {exam}"])))


def _how_sure(names: Sequence[str], advice: Recommendation, chosen: int, latency: Mapping[int, Timing]) -> str:
    longer = "" if chosen == advice.best else _longer(names, advice.best, chosen, latency)
    return probability(names, advice, chosen, longer)


def _best(scores: Floats) -> int:
    return int(np.argmax(scores.mean(axis=0)))


def fastest(advice: Recommendation, latency: Mapping[int, Timing], reranked: Sequence[bool]) -> int:
    """The best of the fastest configurations that are as good as the best; the best itself unless one is clearly
    faster. If the best has a reranker, it must be expected to gain more than the margin."""
    if advice.best not in latency:
        return advice.best
    timed = [i for i in _quicker(advice.best, reranked) if i in latency]
    quick = [i for i in timed if advice.means[advice.best] - advice.means[i] <= advice.margin]
    if quick:
        return max(quick, key=lambda i: advice.means[i])
    faster = [i for i in advice.equals if i in latency and _is_faster(latency[i], latency[advice.best])]
    first = min(faster, key=lambda i: latency[i].p50, default=advice.best)
    alike = [i for i in faster if not _is_faster(latency[first], latency[i])]
    return max(alike, key=lambda i: advice.means[i], default=advice.best)


def _is_faster(timing: Timing, other: Timing) -> bool:
    """Whether somebody notices that a search is faster, whatever else the machine does."""
    return timing.p50_high < other.p50_low and other.p50 - timing.p50 >= max(_NOTICED, _SHARE * other.p50)


def _longer(names: Sequence[str], slow: int, fast: int, latency: Mapping[int, Timing]) -> str:
    """How much longer the slower of two searches takes, in words that two runs share."""
    words = next(words for least, words in _LONGER if latency[slow].p50 >= least * latency[fast].p50)
    return f"{words} with {names[fast]}"


def _quicker(i: int, reranked: Sequence[bool]) -> list[int]:
    """The configurations without a reranker, if configuration i has one."""
    return [other for other, slow in enumerate(reranked) if reranked[i] and not slow]


def _price(
    names: Sequence[str], advice: Recommendation, chosen: int, latency: Mapping[int, Timing], reranked: Sequence[bool]
) -> str:
    """What the best configuration costs and gains, beside the chosen one; if that is the best and has a reranker,
    beside the best without one. "" if there is nothing to weigh."""
    fast = [i for i in _quicker(advice.best, reranked) if i in latency]
    if advice.best not in latency or (chosen == advice.best and not fast):
        return ""
    other = max(fast, key=lambda i: advice.means[i]) if chosen == advice.best else chosen
    points = 100 * (advice.means[advice.best] - advice.means[other])
    text = (
        f"{names[advice.best]} is expected to score {points:.1f} points of {advice.measure} more than {names[other]}, "
        f"and a search takes {_longer(names, advice.best, other, latency)}."
    )
    if chosen == advice.best:
        return text
    return f"{text} If that is no problem: surefind use {shlex.quote(names[advice.best])}."


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
