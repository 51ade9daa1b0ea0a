"""The windows of `slidegar` for one query, without the model: what to show next, and what an answer means.

The first window holds the head of the ranking. After each answer the better part is carried on, the rest is settled,
and `step` new passages join, in turn from the neighbours of the carried ones and from the ranking, until as many
passages were shown as sliding over the head alone would have shown. So the number of calls is the same:

    calls = 1 + ceil((top - window) / step)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

Near = Callable[[Sequence[int]], Sequence[int]]
"""The neighbours of passages, nearest first."""


def calls(candidates: int, window: int, step: int) -> int:
    return 0 if candidates < 2 else 1 + ceil(max(0, candidates - window) / step)


class Slide:
    def __init__(self, ranking: Sequence[int], top: int, window: int, step: int, near: Near) -> None:
        self._ranking = list(ranking)
        self._step = step
        self._left = max(0, min(top, len(ranking)) - window)
        """How many more passages may be shown."""
        self._near = near
        self._frontier: list[int] = []
        self._from_neighbours = True
        self.window = self._ranking[: min(top, window)]
        self._seen = set(self.window)
        self._settled: list[int] = []
        self.adopted = 0
        """Passages that the ranking before did not hold, or held too low to be shown."""

    @property
    def open(self) -> bool:
        return self._left > 0

    def answer(self, order: Sequence[int]) -> None:
        """`order` are the places of the window's passages, best first; the next window follows from it."""
        ranked = [self.window[place] for place in order]
        if not self.open:
            self.window = ranked
            return
        size = min(self._step, self._left)
        carried = ranked[:-size] if size < len(ranked) else ranked[:1]
        self._settled += ranked[len(carried) :]
        self._frontier = [*self._near(carried), *self._frontier]
        new = self._next(size)
        self.window = carried + new
        self._left -= size

    def _next(self, size: int) -> list[int]:
        """From the neighbours and from the ranking in turn; where one runs dry, from the other."""
        first, second = (self._frontier, self._ranking) if self._from_neighbours else (self._ranking, self._frontier)
        self._from_neighbours = not self._from_neighbours
        new: list[int] = []
        for ordinal in (*first, *second):
            if len(new) < size and ordinal not in self._seen:
                new.append(ordinal)
                self._seen.add(ordinal)
        shown_anyway = set(self._ranking[: len(self._seen)])
        self.adopted += sum(ordinal not in shown_anyway for ordinal in new)
        return new

    @property
    def result(self) -> list[int]:
        """Carried, then settled, then what was never shown, in the order of the ranking."""
        shown = [*self.window, *self._settled]
        return shown + [ordinal for ordinal in self._ranking if ordinal not in self._seen]
