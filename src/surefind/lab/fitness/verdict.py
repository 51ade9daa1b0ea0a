"""Decides whether a model is fit for a kind of step, from how often it did a task right.

Each kind has two marks. `chance` is the share that an answer in the right form gets by chance. `useful` is the share
from which on the step is worth having: what a search does without it, or more right answers than wrong ones.

    fit        the lower bound of the share is above `useful`: Clopper and Pearson's one-sided 95% bound
    unfit      so many right answers or more are no surprise by chance: P(X >= right | n, chance) > 0.05
    doubtful   everything between

So few tasks cannot tell a good model from a very good one; they tell a model that can do it from one that cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Literal

Verdict = Literal["fit", "doubtful", "unfit"]
LEVEL = 0.05


@dataclass(frozen=True)
class TaskResult:
    """How often a model did the task of one kind right."""

    kind: str
    right: int
    tasks: int
    chance: float
    useful: float
    bias: float | None = None
    """How far its first choice follows the place in the list, from -1 to 1; only where lists were shown twice."""
    why: str = ""
    """Why an answer could not be used, if there was a reason."""

    @property
    def share(self) -> float:
        return self.right / self.tasks if self.tasks else 0.0

    @property
    def verdict(self) -> Verdict:
        if lower_bound(self.right, self.tasks) > self.useful:
            return "fit"
        return "unfit" if tail(self.right, self.tasks, self.chance) > LEVEL else "doubtful"

    @property
    def figure(self) -> str:
        """The figure in words: `17 of 24 right, by chance 4`."""
        said = f"{self.right} of {self.tasks} right, by chance {self.chance * self.tasks:.0f}"
        return said if self.bias is None else f"{said}, position bias {self.bias:+.2f}"


def tail(right: int, tasks: int, chance: float) -> float:
    """P(X >= right) for `tasks` answers of which each is right with the probability `chance`."""
    return sum(comb(tasks, i) * chance**i * (1 - chance) ** (tasks - i) for i in range(right, tasks + 1))


def lower_bound(right: int, tasks: int) -> float:
    """The smallest share for which so many right answers are no surprise: P(X >= right | share) = 0.05."""
    if not right:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(right, tasks, middle) < LEVEL else (low, middle)
    return low
