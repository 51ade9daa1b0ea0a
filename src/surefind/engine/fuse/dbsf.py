"""`dbsf(weights=[…])`: distribution-based score fusion.

    z_i(d) = (s_i(d) - mean_i) / std_i            over the scores of ranking i for this query
    score(d) = Σ_i  w_i · clip((z_i(d) + 3) / 6, 0, 1)

Three standard deviations below the mean become 0, three above become 1. So one outlier does not flatten the other
scores, as it does in min-max. If all scores of a ranking are equal, each becomes ½. (Mazzeschi 2023. The sum of
z-scores without limits, as in the company-context-layer study, is `dbsn`.)
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
class DBSF(Stage):
    kind: ClassVar[str] = "fuse"
    name: ClassVar[str] = "dbsf"

    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        sound = self.weights is None or (min(self.weights, default=-1) >= 0 and sum(self.weights) > 0)
        require(sound, self, "weights must not be negative, and not all 0")

    def fuse(self, rankings: Sequence[Rankings], k: int) -> Rankings:
        weights = weights_for(self, self.weights, rankings)
        gains = [weight * _three_sigma(ranking) for weight, ranking in zip(weights, rankings, strict=True)]
        return join(rankings, gains, k, self.name)


def _three_sigma(ranking: Rankings) -> Floats:
    return np.where(present(ranking), np.clip((z_scores(ranking) + 3) / 6, 0.0, 1.0), 0.0)
