"""Scores rankings: positions of chunks, the measures that compare text, and the table of all scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from surefind.bench.drawn import QuestionSample
from surefind.bench.plan import Plan
from surefind.exam.model import Judgment
from surefind.measure.gains import ChunkSpans, Judge
from surefind.measure.names import SPAN_MEASURES, Measure
from surefind.measure.overlap import OverlapJudge
from surefind.measure.ranks import MEASURES
from surefind.protocols import OnProgress
from surefind.store.backend import Spans, View
from surefind.types import Floats, Rankings

Row = tuple[Rankings, Rankings | None, View]
"""The rankings of a contender, those of all questions without its rerankers if it was asked a part, and its view."""


def score_table(
    plan: Plan,
    rows: Sequence[Row],
    part: QuestionSample | None,
    judges: Mapping[int, Judge],
    documents: Mapping[str, str],
    report: OnProgress,
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """For each measure, an array of shape (queries, contenders), twice: the scores, with estimates where a contender
    was asked a part of the questions; and the answered ones, with NaN for questions that were not asked. `judges` are
    those of the views, by their id."""
    spans = {id(view): SpanScores(plan, view.spans(), judges[id(view)].places, documents) for *_, view in rows}
    levels = {m.level for m in plan.measures if not m.of_spans}
    shape = len(plan.exam.queries), len(rows)
    table: dict[str, Floats] = {str(m): np.zeros(shape) for m in plan.measures}
    answered: dict[str, Floats] = {str(m): np.zeros(shape) for m in plan.measures}

    def scored(ranking: Rankings, view: View) -> dict[str, Floats]:
        gains = {level: judges[id(view)].gains(ranking, level) for level in levels}
        return {
            str(m): spans[id(view)].of(ranking, m) if m.of_spans else MEASURES[m.name](gains[m.level], m.k)
            for m in plan.measures
        }

    for c, (ranking, before, view) in enumerate(rows):
        report("Scoring", c + 1, len(rows))
        drawn = part if before is not None else None
        without = scored(before, view) if before is not None else {}
        for m, scores in scored(ranking, view).items():
            table[m][:, c] = drawn.estimated(without[m], scores) if drawn else scores
            answered[m][:, c] = np.where(drawn.asked, scores, np.nan) if drawn else scores
    return table, answered


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
        from surefind.measure.spans import SpanJudge

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
