"""Scores the rankings of one layout: positions of its chunks, and the measures that compare text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from surefind.bench.plan import Plan
from surefind.exam.model import Judgment
from surefind.measure.gains import Places
from surefind.measure.names import SPAN_MEASURES, Measure
from surefind.measure.overlap import OverlapJudge
from surefind.store.backend import Spans
from surefind.types import Floats, Rankings


class SpanScores:
    """Computes the gold-span measures, all together once per ranking and k."""

    def __init__(self, plan: Plan, spans: Spans, places: Places, documents: Mapping[str, str]) -> None:
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


def places_of(spans: Spans, documents: Mapping[str, str]) -> Places:
    numbers = {chunk_id: number for number, chunk_id in enumerate(documents)}
    of_names = np.array([numbers[chunk_id] for chunk_id in spans.names], dtype=np.int64)
    return Places(of_names[spans.documents], spans.starts, spans.ends, numbers, spans.at)
