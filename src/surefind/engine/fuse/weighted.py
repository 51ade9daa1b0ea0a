"""`weighted(bm25=0.35, dense=0.5, graph=0.15, norm=minmax)`: a weighted sum over any number of rankings.

    score(d) = Σ_i  w_i · norm_i(d) / Σ_i w_i        norm: minmax, or floor (see tm2c2)

A weight is given for a retriever's name or for its kind: sparse, dense or graph. `weights=[0.35, 0.5, 0.15]` gives the
weights in the order of the retrievers; without weights all are equal. `surefind train weights` finds good ones. The
cascade study's static weights are dense 0.50, sparse 0.35, graph 0.15.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from surefind.base.errors import SpecError
from surefind.base.spec import Stage, require
from surefind.base.types import Rankings, Signal
from surefind.engine.fuse.support.join import alpha_of, from_floor, join, min_max, weights_for


@dataclass(frozen=True)
class Weighted(Stage):
    kind: ClassVar[str] = "fuse"
    name: ClassVar[str] = "weighted"
    rest: ClassVar[str] = "by_name"

    weights: tuple[float, ...] | None = None
    norm: Literal["minmax", "floor"] = "minmax"
    missing: Literal["score"] | None = None
    by_name: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        require(self.weights is None or not self.by_name, self, "give weights by name or as a list, not both")
        weights = tuple(weight for _, weight in self.by_name) or self.weights
        sound = weights is None or (min(weights, default=-1) >= 0 and sum(weights) > 0)
        require(sound, self, "weights must not be negative, and not all 0")

    def fuse(self, rankings: Sequence[Rankings], k: int) -> Rankings:
        weights = self._named(rankings) if self.by_name else weights_for(self, self.weights, rankings)
        scale = min_max if self.norm == "minmax" else from_floor
        gains = [weight / sum(weights) * scale(ranking) for weight, ranking in zip(weights, rankings, strict=True)]
        return join(rankings, gains, k, self.name)

    def only(self, kept: Sequence[int]) -> Weighted:
        """Weights by name may lack a ranking, and then all that are left count alike."""
        if self.by_name or self.weights is None:
            return Weighted(norm=self.norm, missing=self.missing)
        weights = tuple(self.weights[at] for at in kept)
        return Weighted(weights if sum(weights) else None, self.norm, self.missing)

    def same_as(self, signals: Sequence[Signal]) -> str | None:
        alpha = None if self.by_name else alpha_of(self.weights, signals)
        if alpha is None:
            return None
        missing = ", missing=score" if self.missing else ""
        return f"{'convex' if self.norm == 'minmax' else 'tm2c2'}(alpha={alpha}{missing})"

    def _named(self, rankings: Sequence[Rankings]) -> tuple[float, ...]:
        """The weight of each ranking, looked up by the name of its retriever or by its kind."""
        weights = dict(self.by_name)
        names = [ranking.source if ranking.source in weights else ranking.signal for ranking in rankings]
        there = ", ".join(ranking.source for ranking in rankings)
        for ranking, name in zip(rankings, names, strict=True):
            if name not in weights:
                raise SpecError(f"{self} has no weight for {ranking.source}. Give one to each of: {there}.")
            if names.count(name) > 1:
                raise SpecError(
                    f"{self} gives one weight to several rankings ({there}). Write weights=[…] in their order."
                )
        for name in weights:
            if name not in names:
                raise SpecError(f"{self} has a weight for {name}, but the rankings are: {there}.")
        return tuple(weights[name] for name in names)
