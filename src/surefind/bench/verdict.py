"""Who won, who cannot be told apart, and which of those to take: in numbers and in a sentence.

The winner has the highest mean over all questions. Being picked for that flatters it, so the sentence also says
what picking costs: the best of one half of the questions, scored on the other half, which picking did not see.
Of the winner and those that cannot be told apart from it, the cheapest is recommended, unless the exam flatters
it: questions written from the documents share their words, so a tie must hold on the questions that share few words
with their passage as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefind.measure.statistics import Comparison, Interval, compare_all, compare_families
from surefind.types import Floats

_ENOUGH = 30
"""Fewer questions than this say nothing."""
_AS_FAST = 1.1
"""Within this factor two latencies are the same on a noisy machine, and quality decides."""


@dataclass(frozen=True)
class Verdict:
    winner: int
    ties: tuple[int, ...]
    recommended: int
    text: str


def compare(scores: Floats, few_shared: Sequence[bool]) -> tuple[list[Comparison], list[Comparison]]:
    """All pairs on all questions, and on those that share few words where there are enough of them."""
    hard = scores[np.array(few_shared)]
    if scores.shape[1] > 1 and _ENOUGH <= len(hard) < len(scores):
        everything, part = compare_families([scores, hard])
        return everything, part
    return compare_all(scores), []


def decide(
    names: Sequence[str],
    measure: str,
    scores: Floats,
    held_out: Sequence[bool],
    few_shared: Sequence[bool],
    comparisons: Sequence[Comparison],
    hard_comparisons: Sequence[Comparison],
    intervals: Sequence[Interval],
    held_out_intervals: Sequence[Interval],
    latency: Sequence[float | None],
) -> Verdict:
    """`few_shared` marks the questions with an overlap below two thirds, `hard_comparisons` are those on them."""
    means = scores.mean(axis=0)
    winner = int(np.argmax(means))
    worse = _beats(winner, comparisons)
    ties = tuple(i for i in range(len(names)) if i != winner and i not in worse)
    text = [_about_winner(names, measure, winner, len(worse), ties, intervals[winner])]
    if len(names) > 1 and any(held_out) and not all(held_out):
        picked = int(np.argmax(scores[~np.array(held_out)].mean(axis=0)))
        interval = held_out_intervals[picked]
        text.append(
            f"Picking on half of the questions takes {names[picked]}, which scores {_shown(interval)} on the other."
        )
    flattered: set[int] = set()
    if hard_comparisons:
        hard = scores[np.array(few_shared)]
        flattered, sentence = _on_hard_questions(names, [winner, *ties], hard, hard_comparisons)
        text.append(sentence)
    recommended = _cheapest([i for i in (winner, *ties) if i not in flattered], means, latency)
    if ties:
        text.append(_advice(names, winner, recommended, latency, flattered))
    return Verdict(winner, ties, recommended, " ".join(text))


def _on_hard_questions(
    names: Sequence[str], tied: Sequence[int], hard: Floats, comparisons: Sequence[Comparison]
) -> tuple[set[int], str]:
    """Which of the winner and its ties fall behind where few words are shared, and a sentence about that."""
    means = hard.mean(axis=0)
    leader = int(np.argmax(means))
    best = max(tied, key=lambda i: (means[i], -i))
    behind = sorted(_beats(best, comparisons) & set(tied), key=lambda i: -means[i])
    lead = f"{names[leader]} leads with {means[leader]:.3f}"
    text = f"On the {len(hard)} questions that share few words with their passage {lead}"
    if best != leader and len(tied) > 1:
        text += f"; of the tied, {names[best]} does best there ({means[best]:.3f})"
    if behind:
        listed = ", ".join(f"{names[i]} ({means[i]:.3f})" for i in behind[:3])
        text += f", significantly ahead of {listed}"
    return set(behind), text + "."


def _beats(i: int, comparisons: Sequence[Comparison]) -> set[int]:
    """Those that i is significantly better than."""
    found = set()
    for c in comparisons:
        if c.significant and i in (c.a, c.b):
            better, worse = (c.a, c.b) if c.difference > 0 else (c.b, c.a)
            if better == i:
                found.add(worse)
    return found


def _cheapest(tied: Sequence[int], means: Floats, latency: Sequence[float | None]) -> int:
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
        return f"{names[winner]} scores {score}; there was nothing to compare it with."
    than = (
        f"significantly better than {worse} of {len(names) - 1} others"
        if worse
        else "but not significantly better than any"
    )
    text = f"{names[winner]} is best ({score}), {than}"
    if not ties:
        return f"{text}."
    listed = ", ".join(names[i] for i in ties[:4]) + (f" and {len(ties) - 4} more" if len(ties) > 4 else "")
    return f"{text}; it cannot be told apart from {listed}."


def _advice(
    names: Sequence[str], winner: int, recommended: int, latency: Sequence[float | None], flattered: set[int]
) -> str:
    if flattered:
        why = "of those that keep up there it is the cheapest, or as cheap as any"
    elif recommended == winner:
        why = "none of its ties is cheaper"
    else:
        mine, best = latency[recommended], latency[winner]
        speed = f" (p50 {mine:.1f} ms against {best:.1f} ms)" if mine is not None and best is not None else ""
        why = f"a tie goes to the cheaper{speed}"
    return f"Take {names[recommended]}: {why}."
