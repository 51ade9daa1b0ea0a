"""Names the configuration to use, how sure that is, and the winner of the exam, as numbers and as text.

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

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from surefind.base.types import Floats
from surefind.lab.bench.prior_table import collections
from surefind.lab.bench.recommendation import Recommendation, describe, probability
from surefind.lab.bench.timing import Timing
from surefind.lab.measure.statistics import Comparison, Interval

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
        shown = _shown(held_out_intervals[picked])
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


def _shown(interval: Interval) -> str:
    return f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _about_winner(
    names: Sequence[str], measure: str, winner: int, worse: int, ties: Sequence[int], interval: Interval
) -> str:
    score = f"{measure} {_shown(interval)}"
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
