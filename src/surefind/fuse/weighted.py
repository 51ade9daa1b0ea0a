"""`weighted(weights=[0.35, 0.5, 0.15], norm=minmax)`: a weighted sum over any number of rankings.

    score(d) = Σ_i  w_i · norm_i(d) / Σ_i w_i        norm: minmax, or floor (see tm2c2)

Weights stand in the order of the retrievers; without them all are equal. `surefind train weights` finds them. The
cascade study's static weights are dense 0.50, sparse 0.35, graph 0.15.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from surefind.fuse._join import from_floor, join, min_max, weights_for
from surefind.spec import Stage, require
from surefind.types import Rankings


@dataclass(frozen=True)
class Weighted(Stage):
    kind: ClassVar[str] = "fuse"
    name: ClassVar[str] = "weighted"

    weights: tuple[float, ...] | None = None
    norm: Literal["minmax", "floor"] = "minmax"
    missing: Literal["score"] | None = None

    def __post_init__(self) -> None:
        sound = self.weights is None or (min(self.weights, default=-1) >= 0 and sum(self.weights) > 0)
        require(sound, self, "weights must not be negative, and not all 0")

    def fuse(self, rankings: Sequence[Rankings], k: int) -> Rankings:
        weights = weights_for(self, self.weights, rankings)
        scale = min_max if self.norm == "minmax" else from_floor
        gains = [weight / sum(weights) * scale(ranking) for weight, ranking in zip(weights, rankings, strict=True)]
        return join(rankings, gains, k, self.name)
