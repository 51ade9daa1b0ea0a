"""Measures how much of the gold text the top k passages contain, and how much other text, in characters.

For gold spans G and passages c_1 … c_k, with |·| a number of characters:

    shared = |G ∩ (c_1 ∪ … ∪ c_k)|        SpanR = shared / |G|        SpanP = shared / Σ|c_i|
    IoU = shared / (Σ|c_i| + |G| - shared)

The token recall, precision and IoU of "Evaluating Chunking Strategies for Retrieval" (Smith & Troynikov, Chroma 2024),
on characters. Text in two passages is read twice, so it counts twice in Σ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from surefind.base.types import Rankings
from surefind.lab.exam.model import ExamQuery
from surefind.lab.measure.gains import ChunkSpans

Span = tuple[int, int]


class OverlapJudge:
    def __init__(self, queries: Sequence[ExamQuery], places: ChunkSpans) -> None:
        self._places = places
        self._gold = [self._spans(query) for query in queries]

    def scores(self, rankings: Rankings, k: int) -> dict[str, NDArray[np.float64]]:
        table = {name: np.zeros(len(self._gold)) for name in ("SpanR", "SpanP", "IoU")}
        rankings = self._places.located(rankings)
        for q, gold in enumerate(self._gold):
            top = rankings.row(q)[0][:k].tolist()
            wanted = sum(end - start for spans in gold.values() for start, end in spans)
            if not top or not wanted:
                continue
            read = defaultdict(list)
            for ordinal in top:
                read[int(self._places.documents[ordinal])].append(self._span(ordinal))
            shared = sum(_shared(union(read[document]), spans) for document, spans in gold.items() if document in read)
            length = sum(end - start for spans in read.values() for start, end in spans)
            table["SpanR"][q] = shared / wanted
            table["SpanP"][q] = shared / length
            table["IoU"][q] = shared / (length + wanted - shared)
        return table

    def _span(self, ordinal: int) -> Span:
        return int(self._places.starts[ordinal]), int(self._places.ends[ordinal])

    def _spans(self, query: ExamQuery) -> dict[int, list[Span]]:
        """Document number -> its gold spans, overlapping ones joined. A document that is wholly gold is one span."""
        found: dict[int, list[Span]] = defaultdict(list)
        for j in query.judgments:
            number = self._places.numbers.get(j.document)
            if j.grade > 0 and number is not None:
                whole = self._places.ends[self._places.documents == number].max(initial=0) if j.end is None else j.end
                found[number].append((j.start or 0, int(whole)))
        return {number: union(spans) for number, spans in found.items()}


def union(spans: Sequence[Span]) -> list[Span]:
    """Joins spans that overlap or touch; returns them in order."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _shared(left: Sequence[Span], right: Sequence[Span]) -> int:
    return sum(max(0, min(b, d) - max(a, c)) for a, b in left for c, d in right)
