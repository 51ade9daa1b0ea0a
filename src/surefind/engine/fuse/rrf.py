"""`rrf(k=60, weights=[…])`: reciprocal rank fusion.

    score(d) = Σ_i  w_i / (k + rank_i(d))        over the rankings that contain d, ranks from 1

Only ranks count: the scales of scores do not matter, but their confidence is lost. Weights are given in the order of
the retrievers; the default is 1 for each. Cormack, Clarke and Büttcher, SIGIR 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefind.base.spec import Stage, require
from surefind.base.types import Rankings
from surefind.engine.fuse.support.join import join, present, weights_for


@dataclass(frozen=True)
class RRF(Stage):
    kind: ClassVar[str] = "fuse"
    name: ClassVar[str] = "rrf"

    k: float = 60.0
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        require(self.k >= 0, self, "k must be at least 0")
        sound = self.weights is None or (min(self.weights, default=-1) >= 0 and sum(self.weights) > 0)
        require(sound, self, "weights must not be negative, and not all 0")

    def fuse(self, rankings: Sequence[Rankings], k: int) -> Rankings:
        weights = weights_for(self, self.weights, rankings)
        gains = [
            np.where(present(ranking), weight / (self.k + np.arange(1, ranking.ids.shape[1] + 1)), 0.0)
            for ranking, weight in zip(rankings, weights, strict=True)
        ]
        return join(rankings, gains, k, self.name)
