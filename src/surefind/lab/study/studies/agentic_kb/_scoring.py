"""Scores rankings that no pipeline made: blends with learned weights, and rankings that were reranked in part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from surefind.base.types import Floats, Rankings
from surefind.engine.search.parents import fold
from surefind.lab.bench.engine import OWNER, Scored
from surefind.lab.bench.plan import parse_measures
from surefind.lab.bench.scoring import SpanScores
from surefind.lab.exam.model import ExamQuery
from surefind.lab.study.desk import RunContext


class Scorer:
    """Computes gold-span measures of rankings on the layout of a stage's first contender."""

    def __init__(self, desk: RunContext, scored: Scored, queries: Sequence[ExamQuery], measures: Sequence[str]) -> None:
        documents = {
            document.id: document.text for document in desk.bench.reader(scored.plan.contenders[0]).documents(OWNER)
        }
        plan = replace(scored.plan, exam=replace(scored.plan.exam, queries=tuple(queries)))
        self._view = scored.view
        self._spans = SpanScores(plan, self._view.spans(), scored.judges[0].places, documents)
        self._measures = parse_measures(measures)

    def scores(self, ranking: Rankings) -> dict[str, Floats]:
        """Measure -> the score of each question. Each larger passage counts once, as in a search."""
        whole = fold(ranking, self._view.parents)
        return {str(measure): self._spans.of(whole, measure) for measure in self._measures}
