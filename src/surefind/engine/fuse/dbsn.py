"""`dbsn(weights=[…])`: distribution-based score normalization, the sum of z-scores.

    z_i(d) = (s_i(d) - mean_i) / std_i            over the scores of ranking i for this query
    score(d) = Σ_i  w_i · (z_i(d) - min z_i)

Subtracting the lowest z of each ranking changes no order among passages of that ranking. A passage that a ranking did
not return counts there like its last one, as in `convex`. If all scores of a ranking are equal, each becomes 1. (The
company-context-layer study. `dbsf` scales the same z-scores to 0 … 1 with limits of three standard deviations.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefind.base.spec import Stage, require
from surefind.base.types import Floats, Rankings
from surefind.engine.fuse.support.join import join, present, weights_for, z_scores


@dataclass(frozen=True)
class DBSN(Stage):
    kind: ClassVar[str] = "fuse"
    name: ClassVar[str] = "dbsn"

    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        sound = self.weights is None or (min(self.weights, default=-1) >= 0 and sum(self.weights) > 0)
        require(sound, self, "weights must not be negative, and not all 0")

    def fuse(self, rankings: Sequence[Rankings], k: int) -> Rankings:
        weights = weights_for(self, self.weights, rankings)
        gains = [weight * _above_the_last(ranking) for weight, ranking in zip(weights, rankings, strict=True)]
        return join(rankings, gains, k, self.name)


def _above_the_last(ranking: Rankings) -> Floats:
    there, z = present(ranking), z_scores(ranking)
    low = np.min(z, axis=1, keepdims=True, where=there, initial=np.inf)
    high = np.max(z, axis=1, keepdims=True, where=there, initial=-np.inf)
    return np.where(there, np.where(high > low, z - np.where(np.isfinite(low), low, 0.0), 1.0), 0.0)
