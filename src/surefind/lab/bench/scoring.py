"""Scores rankings: positions of chunks, the measures that compare text, and the table of all scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from surefind.base.protocols import OnProgress
from surefind.base.types import Floats, Rankings
from surefind.engine.store.backend import Spans, View
from surefind.lab.bench.plan import Plan
from surefind.lab.exam.model import Judgment
from surefind.lab.measure.gains import ChunkSpans, Judge
from surefind.lab.measure.names import SPAN_MEASURES, Measure
from surefind.lab.measure.overlap import OverlapJudge
from surefind.lab.measure.ranks import MEASURES


def score_table(
    plan: Plan,
    rows: Sequence[tuple[Rankings, View]],
    judges: Mapping[int, Judge],
    documents: Mapping[str, str],
    report: OnProgress,
) -> dict[str, Floats]:
    """For each measure, the scores as an array of shape (queries, contenders). `rows` has the rankings and the view of
    each contender; `judges` are those of the views, by their id."""
    spans = {id(view): SpanScores(plan, view.spans(), judges[id(view)].places, documents) for _, view in rows}
    levels = {m.level for m in plan.measures if not m.of_spans}
    shape = len(plan.exam.queries), len(rows)
    table: dict[str, Floats] = {str(m): np.zeros(shape) for m in plan.measures}
    for c, (ranking, view) in enumerate(rows):
        report("Scoring", c + 1, len(rows))
        gains = {level: judges[id(view)].gains(ranking, level) for level in levels}
        for m in plan.measures:
            of_spans = spans[id(view)].of(ranking, m) if m.of_spans else None
            table[str(m)][:, c] = MEASURES[m.name](gains[m.level], m.k) if of_spans is None else of_spans
    return table


class SpanScores:
    """Computes the gold-span measures, all together once per ranking and k."""

    def __init__(self, plan: Plan, spans: Spans, places: ChunkSpans, documents: Mapping[str, str]) -> None:
        self._plan = plan
        self._spans = spans
        self._places = places
        self._documents = documents
        self._known: dict[tuple[bool, int], Mapping[str, Floats]] = {}
        self._ranking: Rankings | None = None

    def of(self, ranking: Rankings, measure: Measure) -> Floats:
        if self._ranking is not ranking:
            self._ranking, self._known = ranking, {}
        of_text = measure.name in SPAN_MEASURES
        if (of_text, measure.k) not in self._known:
            judge = self._texts if of_text else self._overlap
            self._known[of_text, measure.k] = judge.scores(ranking, measure.k)
        return self._known[of_text, measure.k][measure.name]

    @cached_property
    def _overlap(self) -> OverlapJudge:
        return OverlapJudge(self._plan.exam.queries, self._places)

    @cached_property
    def _texts(self) -> Any:
        from surefind.lab.measure.spans import SpanJudge

        queries = self._plan.exam.queries
        answers = [[self._passage(j) for j in query.judgments if j.is_answer] for query in queries]
        segments = [[self._passage(j) for j in query.segments] for query in queries]
        return SpanJudge(answers, self._text, segments)

    def _passage(self, j: Judgment) -> str:
        return self._documents[j.document][j.start : j.end]

    def _text(self, chunk_id: int) -> str:
        spans, at = self._spans, self._spans.position(chunk_id)
        return self._documents[spans.document(chunk_id)][spans.starts[at] : spans.ends[at]]


def places_of(spans: Spans, documents: Mapping[str, str]) -> ChunkSpans:
    numbers = {chunk_id: number for number, chunk_id in enumerate(documents)}
    of_names = np.array([numbers[chunk_id] for chunk_id in spans.names], dtype=np.int64)
    return ChunkSpans(of_names[spans.documents], spans.starts, spans.ends, numbers, spans.at)
