"""Span recall, precision and IoU against written-out numbers and against sets of characters."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from exam_helpers import query
from surefind.lab.exam.model import Judgment
from surefind.lab.measure.ranks import ChunkSpans, parse_measure
from surefind.lab.measure.spans import OverlapJudge, union
from surefind.testing import rankings_of

spans = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 15)).map(lambda p: (p[0], p[0] + p[1])), max_size=6)


def places(*rows: tuple[int, int, int]) -> ChunkSpans:
    documents, starts, ends = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return ChunkSpans(documents, starts, ends, {"a": 0, "b": 1})


def scores(where: ChunkSpans, ordinals: list[int], *judgments: Judgment, k: int = 5) -> dict[str, float]:
    ranking = rankings_of([(ordinals, [float(-i) for i in range(len(ordinals))])])
    found = OverlapJudge([query("q", "?", *judgments)], where).scores(ranking, k)
    return {name: float(values[0]) for name, values in found.items()}


def test_written_out() -> None:
    # Gold: 10 characters of a. Retrieved: 0-20 of a (holds 10-15 of the gold) and 0-5 of b.
    where = places((0, 0, 15), (1, 0, 5), (0, 15, 40))
    assert scores(where, [0, 1], Judgment("a", 10, 20)) == {"SpanR": 5 / 10, "SpanP": 5 / 20, "IoU": 5 / (20 + 10 - 5)}


def test_text_read_twice_counts_twice_in_what_is_read() -> None:
    where = places((0, 0, 20), (0, 10, 30))
    assert scores(where, [0, 1], Judgment("a", 10, 20)) == {"SpanR": 1.0, "SpanP": 10 / 40, "IoU": 10 / 40}


def test_only_the_first_k_count() -> None:
    where = places((1, 0, 5), (0, 0, 20))
    assert scores(where, [0, 1], Judgment("a", 10, 20), k=1)["SpanR"] == 0


def test_whole_document_is_one_span_and_grade_zero_is_none() -> None:
    where = places((0, 0, 5), (0, 6, 10), (1, 0, 5))
    assert scores(where, [0], Judgment("a"), Judgment("b", grade=0))["SpanR"] == 5 / 10
    assert scores(where, [], Judgment("a")) == {"SpanR": 0, "SpanP": 0, "IoU": 0}


@given(spans.filter(bool), spans.filter(bool))
def test_equal_to_sets_of_characters(gold: list[tuple[int, int]], chunks: list[tuple[int, int]]) -> None:
    where = places(*((0, start, end) for start, end in chunks))
    found = scores(where, list(range(len(chunks))), *(Judgment("a", start, end) for start, end in gold), k=10)
    wanted = {c for start, end in gold for c in range(start, end)}
    read = {c for start, end in chunks for c in range(start, end)}
    length = sum(end - start for start, end in chunks)
    shared = len(wanted & read)
    assert found["SpanR"] == pytest.approx(shared / len(wanted))
    assert found["SpanP"] == pytest.approx(shared / length)
    assert found["IoU"] == pytest.approx(shared / (length + len(wanted) - shared))


@given(spans)
def test_union_keeps_the_characters_and_leaves_gaps(given_spans: list[tuple[int, int]]) -> None:
    joined = union(given_spans)
    assert {c for a, b in joined for c in range(a, b)} == {c for a, b in given_spans for c in range(a, b)}
    assert all(left[1] < right[0] for left, right in pairwise(joined))


@each("text", ["SpanR@5", "SpanP@3", "IoU@10"])
def test_name_reads_back(text: str) -> None:
    assert str(parse_measure(text)) == text
    assert parse_measure(text).of_spans
