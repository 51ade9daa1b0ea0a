"""The comparison of two runs of the same questions: how far the scores moved, and whether chance explains it.

Its views: `check` compares a run with a saved report, `drift` two generations, `gate` refuses a generation that lost,
`preview` shows what a draft gains and loses, and `parity` compares the indexes of a backend with local ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from surefind.base.types import Floats
from surefind.lab.measure.permutation import permutation_p
from surefind.lab.measure.statistics import ALPHA, bootstrap, holm


@dataclass(frozen=True, kw_only=True)
class RunDifference:
    """The mean scores of two runs, and their difference."""

    questions: int
    before: float
    after: float
    difference: float
    low: float
    """The 95% interval of the difference is `low` to `high`."""
    high: float
    p: float

    @property
    def failed(self) -> bool:
        """Whether the second run is significantly worse."""
        return self.difference < 0 and self.p < ALPHA

    def lost_more_than(self, margin: float) -> bool:
        """Whether the loss is above the margin, and above what chance explains."""
        return self.high < 0 and -self.difference > margin

    @property
    def figures(self) -> dict[str, Any]:
        """The fields, for a view of this difference that has more."""
        return asdict(self)

    @property
    def summary(self) -> str:
        return (
            f"{self.before:.3f} -> {self.after:.3f}: {self.difference:+.3f}, 95% interval {self.low:+.3f} to "
            f"{self.high:+.3f}, p {self.p:.3f}"
        )


def compare_runs(before: Floats, after: Floats, clusters: NDArray[np.int64] | None = None) -> list[RunDifference]:
    """Compares each column of two tables of scores, (questions, configurations), paired by question."""
    gain = after - before
    means = zip(before.mean(axis=0).tolist(), after.mean(axis=0).tolist(), strict=True)
    tested = zip(bootstrap(gain, clusters=clusters), permutation_p(gain, clusters).tolist(), strict=True)
    return [
        RunDifference(
            questions=len(gain), before=old, after=new, difference=gained.mean, low=gained.low, high=gained.high, p=p
        )
        for (old, new), (gained, p) in zip(means, tested, strict=True)
    ]


View = TypeVar("View", bound=RunDifference)


def corrected(differences: Sequence[View]) -> list[View]:
    """Returns several comparisons with Holm's correction of p."""
    p = holm(np.array([difference.p for difference in differences])).tolist()
    return [replace(difference, p=value) for difference, value in zip(differences, p, strict=True)]
