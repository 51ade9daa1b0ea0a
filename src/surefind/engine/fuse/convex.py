"""`convex(alpha=0.3)`: a weighted sum of min-max scaled scores.

    score(d) = α · norm(dense(d)) + (1 - α) · norm(sparse(d))

α is the weight of the dense ranking. Unlike RRF, it keeps how much better a confident match scored. A chunk that one
retriever did not return scores 0 there; with `missing=score` that retriever scores it. Bruch, Gai and Ingber, ACM TOIS
2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from surefind.base.spec import Stage, require
from surefind.base.types import Rankings
from surefind.engine.fuse.support.join import dense_weights, join, min_max


@dataclass(frozen=True)
class Convex(Stage):
    kind: ClassVar[str] = "fuse"
    name: ClassVar[str] = "convex"

    alpha: float = 0.3
    missing: Literal["score"] | None = None

    def __post_init__(self) -> None:
        require(0 <= self.alpha <= 1, self, "alpha must be from 0 to 1")

    def fuse(self, rankings: Sequence[Rankings], k: int) -> Rankings:
        weights = dense_weights(self, self.alpha, rankings)
        gains = [weight * min_max(ranking) for weight, ranking in zip(weights, rankings, strict=True)]
        return join(rankings, gains, k, self.name)
