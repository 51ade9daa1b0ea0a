"""`conditional(stage=…, when=max, below=0.95)`: runs another reranker only if the ranking is uncertain.

    rerank(q)  if  confidence(q) < below,  else the previous ranking

`when` selects the measure of confidence (`surefind.engine.confidence.signals`). `max` is the highest score, as in the
agentic-knowledge-base study, where `below` is τ. It needs scores that are comparable between queries (`dense` or `bm25`
alone, `tm2c2`, `convex`, where 1 means that both retrievers rank the same passage first). `margin` is the first
passage's lead over the second, divided by its lead over the tenth: it is comparable for any scores. `agreement` and
`raw` read the rankings of the retrievers. A query with fewer than two passages has nothing to reorder.

`calibrated=NAME` takes measure and threshold from `surefind calibrate`. They are refused if the reranker, the stages
before it or the documents are others than those of the calibration: every query is reranked then, which breaks no
promise, and the trace says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, cast

import numpy as np

from surefind.base import spec
from surefind.base.abilities import Sourced, declared, implements
from surefind.base.errors import SpecError
from surefind.base.protocols import Passages, Reranker, Services
from surefind.base.running import note
from surefind.base.spec import Stage, require
from surefind.base.types import PAD, Floats, Query, Rankings
from surefind.engine.confidence.predictor import Calibration, find_calibration
from surefind.engine.confidence.signals import OF_RETRIEVERS, When, confidence, features


@dataclass(frozen=True)
class Conditional(Stage):
    kind: ClassVar[str] = "rerank"
    name: ClassVar[str] = "conditional"

    stage: str = "cross_encoder"
    when: Literal["max", "margin", "agreement", "raw"] = "max"
    below: float = 0.95
    calibrated: str | None = None

    def __post_init__(self) -> None:
        # Written out in full, so that equal stages have equal specs.
        object.__setattr__(self, "stage", str(self.inner))
        require(self.calibrated != "", self, "calibrated must name a calibration")

    @property
    def inner(self) -> Reranker:
        return cast(Reranker, spec.make("rerank", self.stage))

    @property
    def more_searches(self) -> int:
        return declared(self.inner).more_searches

    @property
    def runs_here(self) -> bool:
        return declared(self.inner).runs_here

    @property
    def work(self) -> str:
        return declared(self.inner).work if self.runs_here else str(self)

    @property
    def reaches(self) -> bool:
        return declared(self.inner).reaches or self.when in OF_RETRIEVERS or bool(self.calibrated)

    def stamp(self, services: Services) -> str:
        own = self._calibration(services).stamp if self.calibrated else ""
        return f"{declared(self.inner).stamp(services)} {own}".strip()

    def training_questions(self, services: Services) -> frozenset[str]:
        """The questions that the inner stage or the threshold was trained on."""
        own = self._calibration(services).training_questions if self.calibrated else frozenset()
        return declared(self.inner).training_questions(services) | own

    def rerank(
        self, queries: Sequence[Query], rankings: Rankings, passages: Passages, k: int, services: Services
    ) -> Rankings:
        name, below, confidences = self._confidences(queries, rankings, passages, services)
        unsure = np.flatnonzero(confidences < below).tolist()
        if not name:
            pass
        elif len(queries) == 1:
            note(f"{name} {confidences[0]:.3f}, {'under' if unsure else 'not under'} {below:g}")
        else:
            note(f"{name} under {below:g} for {len(unsure)} of {len(queries)} queries")
        if not unsure:
            return _head(rankings, k)
        selected = [queries[i] for i in unsure]
        reranked = self.inner.rerank(selected, _rows(rankings, unsure), passages, k, services)
        return _merged(_head(rankings, k), reranked, unsure)

    def _confidences(
        self, queries: Sequence[Query], rankings: Rankings, passages: Passages, services: Services
    ) -> tuple[str, float, Floats]:
        """The name of the measure, the threshold, and the confidence in each query's ranking. Without a name, every
        query is reranked."""
        when: When = self.when
        below: float | None = self.below
        if self.calibrated:
            made = self._calibration(services)
            reason = self._refused(made, passages)
            if reason or made.below is None:
                note(f"every question is reranked: {reason or f'no threshold of {made.name} keeps its promise'}")
                return "", np.inf, np.where((rankings.ids != PAD).sum(axis=1) < 2, np.inf, -np.inf)
            when, below = made.when, made.below
            if made.predictor is not None:
                confidences = made.predictor(features(rankings, self._retrieved(queries, passages)))
                return when, below, np.where((rankings.ids != PAD).sum(axis=1) < 2, np.inf, confidences)
        lists = self._retrieved(queries, passages) if when in OF_RETRIEVERS else []
        return when, cast(float, below), confidence(rankings, lists, when)

    def _calibration(self, services: Services) -> Calibration:
        return find_calibration(services.models_folder, self.calibrated or "")

    def _refused(self, made: Calibration, passages: Passages) -> str:
        if not implements(passages, Sourced):
            return "the stages before it are not known"
        reason = made.refused(self.stage, passages.path, passages.corpus)
        return f"{reason}. Run surefind calibrate again" if reason else ""

    def _retrieved(self, queries: Sequence[Query], passages: Passages) -> list[Rankings]:
        if not implements(passages, Sourced):
            raise SpecError(f"{self.name} reads the rankings of the retrievers, so it works only inside a pipeline.")
        return passages.retrieved(queries)


def _head(rankings: Rankings, k: int) -> Rankings:
    return Rankings(rankings.ids[:, :k], rankings.scores[:, :k], Conditional.name, "mixed")


def _rows(rankings: Rankings, rows: Sequence[int]) -> Rankings:
    return replace(rankings, ids=rankings.ids[rows], scores=rankings.scores[rows])


def _merged(before: Rankings, reranked: Rankings, rows: Sequence[int]) -> Rankings:
    width = max(before.ids.shape[1], reranked.ids.shape[1])
    ids = np.full((len(before), width), PAD, np.int64)
    scores = np.full((len(before), width), -np.inf, np.result_type(before.scores, reranked.scores))
    kept = [i for i in range(len(before)) if i not in set(rows)]
    for places, ranking in ((kept, _rows(before, kept)), (list(rows), reranked)):
        ids[places, : ranking.ids.shape[1]] = ranking.ids
        scores[places, : ranking.scores.shape[1]] = ranking.scores
    return Rankings(ids, scores, Conditional.name, "mixed")
