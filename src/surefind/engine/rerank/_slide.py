"""The windows of `slidegar` for one query, without the model: which passages to show next, and what an answer changes.

The first window holds the head of the ranking. After each answer the better part is carried into the next window and
the rest is settled. `step` new passages join, alternately from the neighbours of the carried passages and from the
ranking, until as many passages were shown as sliding over the head alone would show. The number of calls is the same:

    calls = 1 + ceil((top - window) / step)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

Near = Callable[[Sequence[int]], Sequence[int]]
"""Passages -> their neighbours, nearest first."""


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
        self._carried: list[int] = []
        self._settled: list[int] = []
        self.adopted = 0
        """How many shown passages were not in the previous ranking, or too low in it to be shown."""

    def answer(self, order: Sequence[int]) -> bool:
        """Takes the model's order of the window (places, best first); returns whether there is another window."""
        ranked = [self.window[place] for place in order]
        size = min(self._step, self._left)
        carried = ranked[:-size] if 0 < size < len(ranked) else ranked[:1] if size else []
        self._settle(ranked, len(carried))
        self._carried = carried
        if not size:
            return False
        self._frontier = [*self._near(carried), *self._frontier]
        new = self._next(size)
        self.window = carried + new
        self._left -= size
        return True

    def stop(self) -> None:
        """Ends without an answer and without further windows: everything keeps its order."""
        self._left = 0
        self.answer(range(len(self.window)))

    def _settle(self, ranked: list[int], first: int) -> None:
        """Settles the passages of a window from place `first` on. A passage that was carried before has beaten all that
        are settled, and so have the passages ranked above it now: they go above. The others are only known to be worse
        than the carried ones: they go below."""
        proven = max((place + 1 for place, number in enumerate(ranked) if number in self._carried), default=first)
        above, below = ranked[first:proven], ranked[max(first, proven) :]
        self._settled = [*above, *self._settled, *below]

    def _next(self, size: int) -> list[int]:
        """Takes new passages alternately from the neighbours and from the ranking; if one runs out, from the other."""
        first, second = (self._frontier, self._ranking) if self._from_neighbours else (self._ranking, self._frontier)
        self._from_neighbours = not self._from_neighbours
        new: list[int] = []
        for number in (*first, *second):
            if len(new) < size and number not in self._seen:
                new.append(number)
                self._seen.add(number)
        shown_anyway = set(self._ranking[: len(self._seen)])
        self.adopted += sum(number not in shown_anyway for number in new)
        return new

    @property
    def result(self) -> list[int]:
        """The shown passages in their new order, then the others in the order of the ranking."""
        return self._settled + [number for number in self._ranking if number not in self._seen]
