"""The eleven gold-span measures against a plain implementation and cases done by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from surefind.lab.measure.ranks import SPAN_MEASURES
from surefind.lab.measure.spans import SpanJudge, _lcs
from surefind.testing import rankings_of


def plain_lcs(a: Sequence[object], b: Sequence[object]) -> int:
    row = [0] * (len(b) + 1)
    for x in a:
        before = row
        row = [0]
        for j, y in enumerate(b, 1):
            row.append(before[j - 1] + 1 if x == y else max(before[j], row[j - 1]))
    return row[-1]


def fast_lcs(a: Sequence[int], b: Sequence[int]) -> int:
    return int(_lcs(np.array(a, np.int32), np.array(b, np.int32)))


def scores(answers: Sequence[str], *chunks: str, k: int = 5, found: Sequence[float] | None = None) -> dict[str, float]:
    """The measures of one question whose hits are these chunks, in this order."""
    judge = SpanJudge([answers], lambda ordinal: chunks[ordinal])
    rows = (list(range(len(chunks))), list(found or [1.0 - 0.1 * i for i in range(len(chunks))]))
    return {name: float(values[0]) for name, values in judge.scores(rankings_of([rows]), k).items()}


# ---------------------------------------------------------------- longest common subsequence

few_words = st.lists(st.integers(0, 5), max_size=40)


@given(few_words, few_words)
def test_lcs_is_the_true_one(a: list[int], b: list[int]) -> None:
    assert fast_lcs(a, b) == plain_lcs(a, b)


@each("length", [63, 64, 65, 127, 128, 129, 200])
@each("words", [2, 30])
def test_lcs_is_true_across_blocks_of_64_words(length: int, words: int) -> None:
    rng = np.random.default_rng(length)
    a, b = rng.integers(0, words, 150).tolist(), rng.integers(0, words, length).tolist()
    assert fast_lcs(a, b) == plain_lcs(a, b)


@each("length", [64, 65, 130])
def test_lcs_of_a_text_with_itself_is_its_length(length: int) -> None:
    assert fast_lcs([7] * length, [7] * length) == length


def test_lcs_with_nothing_is_0() -> None:
    assert fast_lcs([1, 2], []) == fast_lcs([], [1, 2]) == 0


# ---------------------------------------------------------------- by hand

ANSWER = "file within fifteen days"
OTHER = "the vault opens at nine"
HALF = "file it in fifteen minutes"
FULL = "You must file within fifteen days of it"


@pytest.fixture(scope="module")
def three() -> dict[str, float]:
    """Hits: nothing, half of the answer (file, fifteen), all of it."""
    return scores([ANSWER], OTHER, HALF, FULL)


@each(
    ("measure", "expected"),
    [
        ("T1EM", 0),
        ("T5EM", 1),
        ("T1C", 0 / 4),
        ("BC", 4 / 4),
        ("AC", (0 / 4 + 2 / 4 + 4 / 4) / 3),
        ("MC", 4 / 4),
        ("MRR", 1 / 3),
        ("AT1S", 1.0),
        ("T1O", 2 * 0 / (5 + 4)),
        ("BO", 2 * 4 / (8 + 4)),
        ("AO", (0 + 2 * 2 / (5 + 4) + 2 * 4 / (8 + 4)) / 3),
    ],
)
def test_measure_by_hand(three: dict[str, float], measure: str, expected: float) -> None:
    assert three[measure] == pytest.approx(expected)


def test_exactly_the_eleven_are_computed(three: dict[str, float]) -> None:
    assert tuple(three) == SPAN_MEASURES


def test_joined_chunks_cover_what_none_of_them_covers_alone() -> None:
    found = scores(["file within fifteen days"], "file within a month", "in fifteen days")
    assert (found["BC"], found["MC"]) == (2 / 4, 4 / 4)


def test_joined_chunks_are_read_in_order_of_rank() -> None:
    assert scores(["file within fifteen days"], "in fifteen days", "file within a month")["MC"] == 2 / 4


def test_words_in_another_order_do_not_cover() -> None:
    assert scores(["one two three"], "three two one")["T1C"] == pytest.approx(1 / 3)


def test_case_matters_for_an_exact_match_but_not_for_coverage() -> None:
    found = scores(["File It"], "please file it")
    assert (found["T1EM"], found["T1C"]) == (0, 1)


def test_white_space_is_folded_before_an_exact_match() -> None:
    assert scores(["file\n  it now"], "please file it\tnow")["T1EM"] == 1


def test_only_the_first_k_chunks_are_retrieved() -> None:
    found = scores([ANSWER], OTHER, HALF, FULL, k=2)
    assert (found["T5EM"], found["BC"], found["MRR"]) == (0, 2 / 4, 0)


def test_of_several_answers_the_best_counts() -> None:
    found = scores(["nowhere to be seen", ANSWER], FULL)
    assert (found["T1EM"], found["T1C"], found["BO"]) == (1, 1, pytest.approx(2 * 4 / (8 + 4)))


def test_mean_overlap_is_taken_over_the_answers_too() -> None:
    assert scores(["zzz", ANSWER], FULL)["AO"] == pytest.approx((0 + 2 * 4 / (8 + 4)) / 2)


def test_top_score_is_that_of_the_ranking() -> None:
    assert scores([ANSWER], FULL, found=[7.5])["AT1S"] == 7.5


def test_question_without_hits_scores_nothing() -> None:
    assert set(scores([ANSWER]).values()) == {0.0}


def test_each_question_is_measured_on_its_own_answer() -> None:
    judge = SpanJudge([["alpha"], ["beta"]], lambda i: ["alpha", "beta"][i])
    rows = [([0, 1], [2.0, 1.0]), ([0, 1], [2.0, 1.0])]
    assert judge.scores(rankings_of(rows), 5)["MRR"].tolist() == [1, 1 / 2]


# ---------------------------------------------------------------- against a plain implementation

texts = st.lists(st.sampled_from("a b c d e".split()), min_size=1, max_size=12).map(" ".join)


def plain_measures(answers: list[str], chunks: list[str], k: int) -> dict[str, float]:
    top = [chunk.split() for chunk in chunks[:k]]
    golds = [answer.split() for answer in answers]
    exact = [any(a in chunk for a in answers) for chunk in chunks[:k]]
    cover = [max(plain_lcs(c, g) / len(g) for g in golds) for c in top]
    overlap = [[2 * plain_lcs(c, g) / (len(c) + len(g)) for g in golds] for c in top]
    joined = [word for chunk in top for word in chunk]
    return {
        "T1EM": exact[0],
        "T5EM": any(exact),
        "T1C": cover[0],
        "BC": max(cover),
        "AC": sum(cover) / len(cover),
        "MC": max(plain_lcs(joined, g) / len(g) for g in golds),
        "MRR": 1 / (exact.index(True) + 1) if any(exact) else 0,
        "T1O": max(overlap[0]),
        "BO": max(map(max, overlap)),
        "AO": sum(sum(row) / len(row) for row in overlap) / len(overlap),
    }


@given(st.lists(texts, min_size=1, max_size=3), st.lists(texts, min_size=1, max_size=6), st.integers(1, 6))
def test_measures_agree_with_the_plain_implementation(answers: list[str], chunks: list[str], k: int) -> None:
    found = scores(answers, *chunks, k=k)
    del found["AT1S"]
    assert found == pytest.approx({name: float(value) for name, value in plain_measures(answers, chunks, k).items()})
