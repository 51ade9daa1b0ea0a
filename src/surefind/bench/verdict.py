"""Who won, who cannot be told apart, and which of those to take: in numbers and in a sentence.

The winner is the best on the tuning half among those that no other beats significantly; what is quoted for it is
its score on the held-out half, which choosing did not see. Of the winner and its ties the cheapest is recommended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefind.measure.statistics import Comparison, Floats, Interval

_AS_FAST = 1.1
"""Within this factor two latencies are the same on a noisy machine, and quality decides."""


@dataclass(frozen=True)
class Verdict:
    winner: int
    ties: tuple[int, ...]
    recommended: int
    text: str


def decide(
    names: Sequence[str],
    measure: str,
    scores: Floats,
    held_out: Sequence[bool],
    comparisons: Sequence[Comparison],
    held_out_intervals: Sequence[Interval],
    latency: Sequence[float | None],
) -> Verdict:
    beaten = _beaten_by(len(names), comparisons)
    tuning = scores[~np.array(held_out)] if not all(held_out) else scores
    means = tuning.mean(axis=0)
    unbeaten = [i for i in range(len(names)) if not beaten[i]]
    winner = max(unbeaten, key=lambda i: (means[i], -i))
    ties = tuple(i for i in range(len(names)) if i != winner and i not in _beats(winner, comparisons))
    recommended = _cheapest([winner, *ties], means, latency)
    worse = len(_beats(winner, comparisons))
    return Verdict(
        winner,
        ties,
        recommended,
        _sentence(names, measure, winner, ties, recommended, worse, held_out_intervals, latency),
    )


def _beats(i: int, comparisons: Sequence[Comparison]) -> set[int]:
    """Those that i is significantly better than."""
    found = set()
    for c in comparisons:
        if c.significant and i in (c.a, c.b):
            better, worse = (c.a, c.b) if c.difference > 0 else (c.b, c.a)
            if better == i:
                found.add(worse)
    return found


def _beaten_by(n: int, comparisons: Sequence[Comparison]) -> list[set[int]]:
    beaten: list[set[int]] = [set() for _ in range(n)]
    for c in comparisons:
        if c.significant:
            better, worse = (c.a, c.b) if c.difference > 0 else (c.b, c.a)
            beaten[worse].add(better)
    return beaten


def _cheapest(tied: Sequence[int], means: Floats, latency: Sequence[float | None]) -> int:
    known = [value for i in tied if (value := latency[i]) is not None]
    if not known:
        return tied[0]
    limit = min(known) * _AS_FAST
    return max((i for i in tied if (latency[i] or limit) <= limit), key=lambda i: (means[i], -i))


def _sentence(
    names: Sequence[str],
    measure: str,
    winner: int,
    ties: Sequence[int],
    recommended: int,
    worse: int,
    intervals: Sequence[Interval],
    latency: Sequence[float | None],
) -> str:
    interval = intervals[winner]
    score = f"{measure} {interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}] on the held-out half"
    if len(names) == 1:
        return f"{names[winner]} scores {score}. There was nothing to compare it with."
    text = f"{names[winner]} is best ({score})"
    text += (
        f", significantly better than {worse} of {len(names) - 1} others"
        if worse
        else ", but not significantly better than any"
    )
    if not ties:
        return text + "."
    listed = ", ".join(names[i] for i in ties[:4]) + (f" and {len(ties) - 4} more" if len(ties) > 4 else "")
    text += f"; it cannot be told apart from {listed}. "
    if recommended == winner:
        return text + f"Take {names[winner]}: none of its ties is cheaper."
    ms = latency[recommended]
    speed = (
        f", p50 {ms:.1f} ms against {latency[winner]:.1f} ms" if ms is not None and latency[winner] is not None else ""
    )
    return text + f"Take {names[recommended]}: a tie goes to the cheaper{speed}."
