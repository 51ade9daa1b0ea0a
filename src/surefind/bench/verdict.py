"""Names the winner, the configurations tied with it and the one to use, as numbers and as text.

For nDCG@10 the recommendation is the configuration that should serve real questions best (`recommendation`); the rest
of the text describes the exam. For other measures, and where layouts are compared, nothing is known from other corpora,
and the exam decides:

The winner has the highest mean over all questions. Choosing it by that mean biases the mean upwards, so the text also
gives an unbiased figure: the best configuration on one half of the questions, scored on the other half.
The fastest of the winner and its ties is recommended if it also holds up on low-overlap questions. Questions written
from the documents repeat their words, which favours lexical search, so a tie must hold on questions that share few
words with their passage as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefind.bench.recommendation import Recommendation, corpora, describe
from surefind.measure.clusters import Clusters
from surefind.measure.statistics import Comparison, Interval, compare_all, compare_together
from surefind.types import Floats

_ENOUGH = 30
"""Low-overlap questions needed to compare configurations on them; with fewer, the result is mostly noise."""
_AS_FAST = 1.1
"""Two latencies within this factor count as equal, because timings are noisy; quality then decides."""


@dataclass(frozen=True)
class Verdict:
    winner: int
    ties: tuple[int, ...]
    recommended: int
    text: str


def compare(
    scores: Floats, low_overlap: Sequence[bool], clusters: Clusters | None = None
) -> tuple[list[Comparison], list[Comparison]]:
    """Compares all pairs on all questions, and again on the low-overlap questions if there are enough of them.

    `low_overlap` marks the low-overlap questions; `clusters` has the number of each question's gold document. The
    second list is empty if they are too few, or all there are.
    """
    few = np.array(low_overlap)
    if scores.shape[1] > 1 and _ENOUGH <= few.sum() < len(scores):
        numbered = None if clusters is None else [clusters, clusters[few]]
        everything, part = compare_together([scores, scores[few]], clusters=numbered)
        return everything, part
    return compare_all(scores, clusters=clusters), []


def decide(
    names: Sequence[str],
    measure: str,
    scores: Floats,
    held_out: Sequence[bool],
    low_overlap: Sequence[bool],
    comparisons: Sequence[Comparison],
    hard_comparisons: Sequence[Comparison],
    intervals: Sequence[Interval],
    held_out_intervals: Sequence[Interval],
    latency: Sequence[float | None],
    recommendation: Recommendation | None = None,
) -> Verdict:
    """Picks the winner, its ties and the recommendation, and explains them.

    With a `recommendation` for real questions, that is the one; the winner on the exam is only described.

    `low_overlap` marks the low-overlap questions (overlap below two thirds); `hard_comparisons` are the comparisons on
    these questions alone.
    """
    means = scores.mean(axis=0)
    winner = int(np.argmax(means))
    worse = _beats(winner, comparisons)
    ties = tuple(i for i in range(len(names)) if i != winner and i not in worse)
    text = [_about_winner(names, measure, winner, len(worse), ties, intervals[winner])]
    if len(names) > 1 and any(held_out) and not all(held_out):
        picked = int(np.argmax(scores[~np.array(held_out)].mean(axis=0)))
        interval = held_out_intervals[picked]
        text.append(
            f"The best on one half of the questions, {names[picked]}, scores {_shown(interval)} on the other half."
        )
    behind: set[int] = set()
    if hard_comparisons:
        hard = scores[np.array(low_overlap)]
        behind, sentences = _on_hard_questions(names, [winner, *ties], hard, hard_comparisons)
        text.append(sentences)
    if recommendation is not None:
        text = [describe(names, recommendation, corpora()), f"On this exam: {text[0]}", *text[1:]]
        return Verdict(winner, ties, recommendation.best, " ".join(text))
    recommended = _fastest([i for i in (winner, *ties) if i not in behind], means, latency)
    if ties:
        text.append(_recommendation(names, winner, recommended, latency, behind))
    return Verdict(winner, ties, recommended, " ".join(text))


def _on_hard_questions(
    names: Sequence[str], tied: Sequence[int], hard: Floats, comparisons: Sequence[Comparison]
) -> tuple[set[int], str]:
    """Returns which of `tied` (the winner and its ties) fall behind on low-overlap questions, and the text about it."""
    means = hard.mean(axis=0)
    leader = int(np.argmax(means))
    best = max(tied, key=lambda i: (means[i], -i))
    behind = sorted(_beats(best, comparisons) & set(tied), key=lambda i: -means[i])
    lead = f"{names[leader]} leads with {means[leader]:.3f}"
    text = f"On the {len(hard)} low-overlap questions, which share few words with their passage, {lead}"
    if best != leader and len(tied) > 1:
        text += f". Of the winner and its ties, {names[best]} does best on them ({means[best]:.3f})"
    if behind:
        text += f", significantly better than {_listed([f'{names[i]} ({means[i]:.3f})' for i in behind], 3)}"
    return set(behind), text + "."


def _beats(i: int, comparisons: Sequence[Comparison]) -> set[int]:
    """The configurations that configuration i is significantly better than."""
    found = set()
    for c in comparisons:
        if c.significant and i in (c.a, c.b):
            better, worse = (c.a, c.b) if c.difference > 0 else (c.b, c.a)
            if better == i:
                found.add(worse)
    return found


def _fastest(tied: Sequence[int], means: Floats, latency: Sequence[float | None]) -> int:
    """The best of the configurations whose latency is within `_AS_FAST` of the lowest."""
    known = [value for i in tied if (value := latency[i]) is not None]
    if not known:
        return tied[0]
    limit = min(known) * _AS_FAST
    return max((i for i in tied if (latency[i] or limit) <= limit), key=lambda i: (means[i], -i))


def _shown(interval: Interval) -> str:
    return f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _about_winner(
    names: Sequence[str], measure: str, winner: int, worse: int, ties: Sequence[int], interval: Interval
) -> str:
    score = f"{measure} {_shown(interval)}"
    if len(names) == 1:
        return f"{names[winner]} scores {score}. There is no other configuration to compare it with."
    tied = f"statistically tied with {_listed([names[i] for i in ties], 4)}"
    if not worse:
        return f"{names[winner]} is best ({score}), but its lead is not significant: it is {tied}."
    others = len(names) - 1
    text = f"{names[winner]} is best ({score}). It is significantly better than "
    if ties:
        return f"{text}{worse} of {others} others and {tied}."
    return text + (f"all {others} others." if others > 1 else "the other configuration.")


def _recommendation(
    names: Sequence[str], winner: int, recommended: int, latency: Sequence[float | None], behind: set[int]
) -> str:
    if behind:
        why = "the fastest of the tied configurations that hold up on low-overlap questions"
    elif recommended == winner:
        why = "because none of the configurations tied with it is noticeably faster"
    else:
        fast, slow = latency[recommended], latency[winner]
        speed = f" (p50 {fast:.1f} ms against {slow:.1f} ms)" if fast is not None and slow is not None else ""
        why = f"the fastest of the tied configurations{speed}"
    return f"Recommendation: {names[recommended]}, {why}."


def _listed(items: Sequence[str], most: int) -> str:
    """`a, b and c`; beyond `most` items, `a, b and 3 more`."""
    if len(items) > most:
        return f"{', '.join(items[:most])} and {len(items) - most} more"
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))
