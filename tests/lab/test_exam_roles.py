"""Answer, supporting evidence and segment of a question: what each measure compares with, and how exams store them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cases import each
from surefind.base.errors import ExamError
from surefind.base.types import Document
from surefind.engine.store.backend import Spans
from surefind.lab.bench.engine import SpanScores, places_of
from surefind.lab.exam.formats.collections import read_beir, write_beir
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.table import read_table, write_csv, write_jsonl
from surefind.lab.exam.model import Exam, ExamQuery, Judgment, clusters_of, query_from_json, query_to_json, relocate
from surefind.lab.exam.store import ExamStore
from surefind.lab.measure.lss import Labeller
from surefind.lab.measure.ranks import MEASURES, Judge, Measure
from surefind.testing import rankings_of

TEXTS = {
    "forms.md": "Form W-12 is the form for wires. Ask the desk for it.",
    "fees.md": "Fees change each May. Form W-12 costs a fee of $25 per wire. Pay it at the desk.",
}
"""Each document is one chunk: `forms.md` has the supporting evidence, `fees.md` the answer."""
LENGTHS = np.array([len(text) for text in TEXTS.values()])
SPANS = Spans(np.arange(2), np.arange(2), LENGTHS * 0, LENGTHS, LENGTHS * 0, LENGTHS, list(TEXTS))
PLACES = places_of(SPANS, TEXTS)


def place(document: str, text: str, role: Any = "answer") -> Judgment:
    start = TEXTS[document].index(text)
    return Judgment(document, start, start + len(text), 1, text[:80], role)


ANSWER = place("fees.md", "$25")
SUPPORT = place("forms.md", "Form W-12 is the form for wires.", "support")
SEGMENT = place("fees.md", "Form W-12 costs a fee of $25 per wire. Pay it at the desk.")
TWO_HOPS = ExamQuery("q", "What does the form for wires cost?", (ANSWER, SUPPORT), "mf2h", segments=(SEGMENT,))


def measured(name: str, *ranked: int, query: ExamQuery = TWO_HOPS) -> float:
    plan = cast(Any, SimpleNamespace(exam=Exam("e", (query,))))
    ranking = rankings_of([(list(ranked), [1.0 - 0.1 * i for i in range(len(ranked))])])
    return float(SpanScores(plan, SPANS, PLACES, TEXTS).of(ranking, Measure(name, 5))[0])


# ---------------------------------------------------------------- measures


@each("name", ["T1EM", "T1C", "MRR"])
def test_chunk_with_the_support_alone_has_no_answer(name: str) -> None:
    assert measured(name, 0) == 0
    assert measured(name, 1) == 1


def test_recall_of_the_support_counts_both() -> None:
    gains = Judge([TWO_HOPS], PLACES).gains(rankings_of([([1], [1.0])]), "span")
    assert MEASURES["R"](gains, 5).tolist() == [0.5]
    assert measured("SpanR", 1) == 3 / (3 + len("Form W-12 is the form for wires."))


def test_labels_of_training_use_the_answer() -> None:
    labeller = Labeller([TWO_HOPS], SPANS, TEXTS)
    assert (labeller.label(0, 0), labeller.label(0, 1)) == (0.0, 1.0)


def test_support_without_an_answer_is_no_gold_of_a_span_measure() -> None:
    assert measured("T1EM", 0, query=ExamQuery("q", "?", (SUPPORT,))) == 0


def test_overlap_compares_with_the_segment() -> None:
    words, segment = 19, 15  # in the chunk and in the segment; the chunk contains the segment
    assert measured("T1O", 1) == pytest.approx(2 * segment / (words + segment))
    without = replace(TWO_HOPS, segments=())
    assert measured("T1O", 1, query=without) == pytest.approx(2 * 1 / (words + 1))
    assert measured("BO", 0, 1) == measured("T1O", 1)
    assert measured("AO", 0, 1) == pytest.approx((measured("T1O", 0) + measured("T1O", 1)) / 2)


def test_question_counts_with_the_document_of_its_answer() -> None:
    turned = replace(TWO_HOPS, judgments=(SUPPORT, ANSWER))
    alone = ExamQuery("r", "What is the fee?", (ANSWER,))
    assert clusters_of([turned, alone]).tolist() == [0, 0]


# ---------------------------------------------------------------- files


def test_row_of_an_exam_reads_back() -> None:
    assert query_from_json(query_to_json(TWO_HOPS)) == TWO_HOPS


def test_questions_without_roles_keep_their_rows_and_fingerprints() -> None:
    plain = ExamQuery("q", "What is the fee?", (ANSWER,))
    row = {"document": "fees.md", "start": ANSWER.start, "end": ANSWER.end, "quote": "$25", "grade": 1}
    assert query_to_json(plain) == {"id": "q", "query": "What is the fee?", "family": "questions", "gold": [row]}
    assert Exam("e", (plain,)).fingerprint == "ea5afe42603b2bad"


def test_exam_is_stored_with_roles_and_segments(tmp_path: Path) -> None:
    store = ExamStore(tmp_path)
    store.save(Exam("e", (TWO_HOPS,)))
    assert store.load("e").queries == (TWO_HOPS,)


@each("kind", ["csv", "jsonl"])
def test_tables_keep_roles_and_segments(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"e.{kind}"
    (write_csv if kind == "csv" else write_jsonl)(Exam("e", (TWO_HOPS,)), path)
    (read,) = read_table(path, library()).queries
    assert (read.judgments, read.segments) == (TWO_HOPS.judgments, TWO_HOPS.segments)


def test_beir_folder_keeps_the_roles(tmp_path: Path) -> None:
    write_beir(Exam("e", (TWO_HOPS,)), tmp_path)
    (read,) = read_beir(tmp_path, library()).queries
    assert read.judgments == TWO_HOPS.judgments


def test_unknown_role_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text('{"query": "Which fee?", "gold": [{"document": "fees.md", "role": "hint"}]}', encoding="utf-8")
    with pytest.raises(ExamError, match=r"the role 'hint'.*answer, support"):
        read_table(path, library())


def library() -> Library:
    return Library([Document(key, text) for key, text in TEXTS.items()])


# ---------------------------------------------------------------- edited documents


def test_segments_move_with_their_documents() -> None:
    moved, lost = relocate(Exam("e", (TWO_HOPS,)), {**TEXTS, "fees.md": f"New. {TEXTS['fees.md']}"})
    (query,) = moved.queries
    assert lost == 0
    assert query.segments[0].start == (SEGMENT.start or 0) + 5
    assert [j.role for j in query.judgments] == ["answer", "support"]


def test_lost_segment_leaves_the_question() -> None:
    edited = {**TEXTS, "fees.md": "A fee of $25 is due."}
    (query,) = relocate(Exam("e", (TWO_HOPS,)), edited)[0].queries
    assert query.segments == ()
    assert len(query.judgments) == 2


def test_question_whose_answer_is_gone_is_left_out() -> None:
    moved, lost = relocate(Exam("e", (TWO_HOPS,)), {**TEXTS, "fees.md": "There is no fee."})
    assert (moved.queries, lost) == ((), 1)
