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
        self._carried: list[int] = []
        self._settled: list[int] = []
        self.adopted = 0
        """Passages that the ranking before did not hold, or held too low to be shown."""

    def answer(self, order: Sequence[int]) -> bool:
        """`order` are the places of the window's passages, best first. Says whether there is another window to ask."""
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
        """No answer, and no further window: everything stays in the order it has."""
        self._left = 0
        self.answer(range(len(self.window)))

    def _settle(self, ranked: list[int], first: int) -> None:
        """Those of a window from place `first` on. A passage that was carried before beat all that were settled then,
        and so did whoever now beats it; the others are known only to be worse than the carried ones."""
        proven = max((place + 1 for place, number in enumerate(ranked) if number in self._carried), default=first)
        above, below = ranked[first:proven], ranked[max(first, proven) :]
        self._settled = [*above, *self._settled, *below]

    def _next(self, size: int) -> list[int]:
        """From the neighbours and from the ranking in turn; where one runs dry, from the other."""
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
        """What was shown, then what never was, in the order of the ranking."""
        return self._settled + [number for number in self._ranking if number not in self._seen]
