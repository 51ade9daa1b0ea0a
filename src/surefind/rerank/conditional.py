"""`conditional(stage=…, when=max, below=0.95)`: runs another reranker only if the ranking is uncertain.

    rerank(q)  if  confidence(q) < below,  else the previous ranking

`when` selects the measure of confidence. `max` is the highest score, as in the agentic-knowledge-base study, where
`below` is τ. It needs scores that are comparable between queries (`dense` or `bm25` alone, `tm2c2`, `convex`, where 1
means that both retrievers rank the same passage first). `margin` is the first passage's lead over the second, divided
by its lead over the tenth: it is comparable for any scores. A query with fewer than two passages has nothing to
reorder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

import numpy as np

from surefind import spec
from surefind.abilities import Local, learnt_by, reaches, runs_here, stamp_of
from surefind.notes import note
from surefind.protocols import Passages, Reranker, Services
from surefind.spec import Stage
from surefind.types import PAD, Query, Rankings

_SPREAD = 10
"""The place in the ranking whose score the margin is scaled by."""


@dataclass(frozen=True)
class Conditional(Stage):
    kind: ClassVar[str] = "rerank"
    name: ClassVar[str] = "conditional"

    stage: str = "cross_encoder"
    when: Literal["max", "margin"] = "max"
    below: float = 0.95

    def __post_init__(self) -> None:
        # Written out in full, so that equal stages have equal specs.
        object.__setattr__(self, "stage", str(self.inner))

    @property
    def inner(self) -> Reranker:
        return cast(Reranker, spec.make("rerank", self.stage))

    @property
    def runs_here(self) -> bool:
        return runs_here(self.inner)

    @property
    def work(self) -> str:
        return self.inner.work if isinstance(self.inner, Local) else str(self)

    @property
    def reaches(self) -> bool:
        return reaches(self.inner)

    def stamp(self, services: Services) -> str:
        return stamp_of(self.inner, services)

    def learnt(self, services: Services) -> frozenset[str]:
        return learnt_by(self.inner, services)

    def rerank(
        self, queries: Sequence[Query], rankings: Rankings, passages: Passages, k: int, services: Services
    ) -> Rankings:
        confidences = [confidence(rankings.row(i)[1], self.when) for i in range(len(queries))]
        unsure = [i for i, value in enumerate(confidences) if value < self.below]
        if len(queries) == 1:
            note(f"{self.when} {confidences[0]:.3f}, {'under' if unsure else 'not under'} {self.below:g}")
        else:
            note(f"{self.when} under {self.below:g} for {len(unsure)} of {len(queries)} queries")
        if not unsure:
            return _head(rankings, k)
        selected = [queries[i] for i in unsure]
        reranked = self.inner.rerank(selected, _rows(rankings, unsure), passages, k, services)
        return _merged(_head(rankings, k), reranked, unsure)


def confidence(scores: Any, when: str) -> float:
    """The confidence in one query's scores, best first; infinite if there is nothing to reorder."""
    if len(scores) < 2:
        return float("inf")
    if when == "max":
        return float(scores[0])
    spread = float(scores[0] - scores[min(_SPREAD, len(scores)) - 1])
    return float(scores[0] - scores[1]) / spread if spread > 0 else 0.0


def _head(rankings: Rankings, k: int) -> Rankings:
    return Rankings(rankings.ids[:, :k], rankings.scores[:, :k], Conditional.name, "mixed")


def _rows(rankings: Rankings, rows: Sequence[int]) -> Rankings:
    return replace(rankings, ids=rankings.ids[rows], scores=rankings.scores[rows])


def _merged(before: Rankings, reranked: Rankings, rows: Sequence[int]) -> Rankings:
    width = max(before.ids.shape[1], reranked.ids.shape[1])
    ids = np.full((len(before), width), PAD, np.int64)
    scores = np.full((len(before), width), -np.inf, np.result_type(before.scores, reranked.scores))
    kept = [i for i in range(len(before)) if i not in set(rows)]
    for places, found in ((kept, _rows(before, kept)), (list(rows), reranked)):
        ids[places, : found.ids.shape[1]] = found.ids
        scores[places, : found.scores.shape[1]] = found.scores
    return Rankings(ids, scores, Conditional.name, "mixed")
