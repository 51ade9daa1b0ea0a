"""`convex(alpha=0.3)`: a weighted sum of min-max scaled scores.

    score(d) = α · norm(dense(d)) + (1 - α) · norm(sparse(d))

α is the weight of the dense ranking; the magnitude of a confident match survives, unlike in RRF. A chunk that one
retriever did not return has 0 there. Bruch, Gai and Ingber, ACM TOIS 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from surefind.errors import SpecError
from surefind.fuse._join import join, min_max
from surefind.spec import Stage, require
from surefind.types import Rankings


@dataclass(frozen=True)
class Convex(Stage):
    kind: ClassVar[str] = "fuse"
    name: ClassVar[str] = "convex"

    alpha: float = 0.3

    def __post_init__(self) -> None:
        require(0 <= self.alpha <= 1, self, "alpha must be from 0 to 1")

    def fuse(self, rankings: Sequence[Rankings], k: int) -> Rankings:
        dense = [ranking.signal == "dense" for ranking in rankings]
        if len(rankings) != 2 or sum(dense) != 1:
            names = ", ".join(ranking.source for ranking in rankings)
            raise SpecError(f"{self} needs one dense and one other ranking, got: {names}. Fuse these with rrf.")
        weights = [self.alpha if is_dense else 1 - self.alpha for is_dense in dense]
        gains = [weight * min_max(ranking) for weight, ranking in zip(weights, rankings, strict=True)]
        return join(rankings, gains, k, self.name)
