"""LSS and the closed-form α* against arithmetic that is written out and a straightforward reference."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefind.engine.store.backend import Spans
from surefind.lab.exam.model import ExamQuery, Judgment
from surefind.lab.measure.lss import Labeller, alpha_star
from surefind.testing import rankings_of

PASSAGES = {
    "a.md": "The report is due within 15 days. Tellers count cash twice.",
    "b.md": "Count the cash, then file the report within 30 days!",
    "c.md": "Nothing here is of interest to anybody.",
}


LENGTHS = np.array([len(text) for text in PASSAGES.values()])
SPANS = Spans(np.arange(3), np.arange(3), LENGTHS * 0, LENGTHS, LENGTHS * 0, LENGTHS, list(PASSAGES))
"""Each document is one passage."""


def labeller(*judgments: Judgment) -> Labeller:
    return Labeller([ExamQuery("q", "when is the report due", judgments)], SPANS, PASSAGES)


def lss(passage: str, answer: str) -> float:
    length = np.array([len(passage)])
    spans = Spans(np.arange(1), np.arange(1), length * 0, length, length * 0, length, ["p"])
    gold = Judgment("a", 0, len(answer))
    made = Labeller([ExamQuery("q", "?", (gold,))], spans, {"p": passage, "a": answer})
    return made.label(0, 0)


def test_lss_is_the_share_of_the_answer_in_order() -> None:
    assert lss("the report is due within 15 days", "report due in 15 days") == 4 / 5
    assert lss("days 15 due report", "report due 15 days") == 1 / 4
    assert lss("anything", "") == 0
    assert lss("Due WITHIN, 15 days.", "due within 15 days") == 1


def slow_lcs(a: list[str], b: list[str]) -> int:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(st.lists(st.sampled_from("abcd"), max_size=80), st.lists(st.sampled_from("abcd"), min_size=1, max_size=80))
def test_lss_is_that_of_a_slow_reference(passage: list[str], answer: list[str]) -> None:
    assert lss(" ".join(passage), " ".join(answer)) == slow_lcs(passage, answer) / len(answer)


def test_alpha_star_written_out() -> None:
    dense, other, labels = np.array([1.0, 0.8, 0.0]), np.array([0.5, 1.0, 0.25]), np.array([1.0, 0.0, 0.0])
    above = (1.0 - 0.5) * 0.5 + (0.0 - 1.0) * -0.2 + (0.0 - 0.25) * -0.25
    below = 0.5**2 + 0.2**2 + 0.25**2
    assert abs(alpha_star(dense, other, labels) - min(1.0, above / below)) < 1e-9


def test_alpha_star_is_one_half_where_nothing_decides() -> None:
    assert alpha_star(np.array([1.0, 0.5]), np.array([1.0, 0.5]), np.array([1.0, 0.0])) == 0.5
    assert alpha_star(np.zeros(0), np.zeros(0), np.zeros(0)) == 0.5


unit = st.floats(0, 1)


@given(st.lists(st.tuples(unit, unit, unit), min_size=1, max_size=20))
def test_alpha_star_has_the_least_squared_error_of_all(rows: list[tuple[float, float, float]]) -> None:
    dense, other, labels = np.array(rows).T
    best = alpha_star(dense, other, labels)
    assert 0 <= best <= 1

    def error(alpha: float) -> float:
        return float(((labels - alpha * dense - (1 - alpha) * other) ** 2).sum())

    assert all(error(best) <= error(alpha) + 1e-12 for alpha in np.linspace(0, 1, 51))


def reference(dense: dict[int, float], sparse: dict[int, float], answer: str) -> float:
    """Equations 14-19 word for word: cosine from -1, BM25 from 0."""
    top_dense, top_sparse = max(dense.values()), max(sparse.values())
    above = below = 0.0
    for d in {*dense, *sparse}:
        sem = (dense[d] + 1) / (top_dense + 1) if d in dense else 0.0
        bm25 = sparse[d] / top_sparse if d in sparse else 0.0
        passage = re.findall(r"\w+", list(PASSAGES.values())[d].lower())
        words = re.findall(r"\w+", answer.lower())
        label = slow_lcs(passage, words) / len(words)
        above += (label - bm25) * (sem - bm25)
        below += (sem - bm25) ** 2
    return min(1.0, max(0.0, above / below))


SPARSE = {0: 7.5, 1: 3.25}
DENSE = {1: 0.75, 2: 0.5, 0: 0.25}


def test_alphas_of_rankings_are_those_of_the_reference() -> None:
    start, end = PASSAGES["b.md"].index("file"), len(PASSAGES["b.md"])
    sparse = rankings_of([(list(SPARSE), list(SPARSE.values()))])
    dense = rankings_of([(list(DENSE), list(DENSE.values()))], "dense", "dense", -1.0)
    expected = reference(DENSE, SPARSE, PASSAGES["b.md"][start:end])
    assert 0 < expected < 1
    for pair in ([sparse, dense], [dense, sparse]):
        found = labeller(Judgment("b.md", start, end)).alphas(pair)
        assert abs(found[0] - expected) < 1e-9


def test_only_the_ten_best_count() -> None:
    sparse = rankings_of([([*range(20, 31), 0], [float(30 - i) for i in range(12)])])
    cut = rankings_of([(list(range(20, 30)), [float(30 - i) for i in range(10)])])
    dense = rankings_of([([1], [0.5])], "dense", "dense", -1.0)

    none = np.zeros(31, np.int64)
    spans = Spans(np.arange(31), none, none, none, none, none, ["c.md"])
    queries = [ExamQuery("q", "q", (Judgment("b.md", 0, 9),))]
    many = Labeller(queries, spans, PASSAGES)
    assert many.alphas([sparse, dense]) == many.alphas([cut, dense])


def test_a_whole_document_labels_its_passages_by_grade() -> None:
    judge = labeller(Judgment("a.md", grade=1), Judgment("b.md", grade=4), Judgment("c.md", grade=0))
    assert [judge.label(0, ordinal) for ordinal in range(3)] == [0.25, 1.0, 0.0]


def test_several_spans_take_the_best() -> None:
    judge = labeller(Judgment("a.md", 0, 10), Judgment("b.md", 0, 14))
    assert judge.label(0, 0) == 1.0
    assert judge.label(0, 1) == 1.0


def test_an_empty_row_is_undecided() -> None:
    nothing = rankings_of([([], [])])
    assert labeller(Judgment("a.md", 0, 9)).alphas([nothing, nothing]).tolist() == pytest.approx([0.5])
