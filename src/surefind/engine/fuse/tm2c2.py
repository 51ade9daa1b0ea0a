"""`tm2c2(alpha=0.5)`: a weighted sum of scores scaled from their theoretical minimum.

    norm(s) = (s - floor) / (max - floor)            floor: 0 for BM25, -1 for cosine
    score(d) = α · norm(dense(d)) + (1 - α) · norm(sparse(d))

Unlike min-max, the scale does not depend on the worst chunk that happened to be returned. A chunk that a ranking does
not contain gets the theoretical minimum there: 0 after scaling. Bruch, Gai and Ingber, ACM TOIS 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from surefind.base.spec import Stage, require
from surefind.base.types import Rankings
from surefind.engine.fuse.support.join import dense_weights, from_floor, join


@dataclass(frozen=True)
class TM2C2(Stage):
    kind: ClassVar[str] = "fuse"
    name: ClassVar[str] = "tm2c2"

    alpha: float = 0.5
    missing: Literal["score"] | None = None

    def __post_init__(self) -> None:
        require(0 <= self.alpha <= 1, self, "alpha must be from 0 to 1")

    def fuse(self, rankings: Sequence[Rankings], k: int) -> Rankings:
        weights = dense_weights(self, self.alpha, rankings)
        gains = [weight * from_floor(ranking) for weight, ranking in zip(weights, rankings, strict=True)]
        return join(rankings, gains, k, self.name)
