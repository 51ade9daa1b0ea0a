"""`rsf(weights=[…])`: relative score fusion, the weighted mean of min-max scaled scores.

    score(d) = Σ_i  w_i · norm_i(d) / Σ_i w_i        norm: each ranking from 0 (its lowest) to 1 (its highest)

For any number of rankings. With two rankings and weights 1-α and α, the order is that of `convex(alpha=α)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from surefind.base.spec import Stage, require
from surefind.base.types import Rankings, Signal
from surefind.engine.fuse.support.join import alpha_of, join, min_max, weights_for


@dataclass(frozen=True)
class RSF(Stage):
    kind: ClassVar[str] = "fuse"
    name: ClassVar[str] = "rsf"

    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        sound = self.weights is None or (min(self.weights, default=-1) >= 0 and sum(self.weights) > 0)
        require(sound, self, "weights must not be negative, and not all 0")

    def fuse(self, rankings: Sequence[Rankings], k: int) -> Rankings:
        weights = weights_for(self, self.weights, rankings)
        gains = [weight / sum(weights) * min_max(ranking) for weight, ranking in zip(weights, rankings, strict=True)]
        return join(rankings, gains, k, self.name)

    def same_as(self, signals: Sequence[Signal]) -> str | None:
        alpha = alpha_of(self.weights, signals)
        return None if alpha is None else f"convex(alpha={alpha})"
