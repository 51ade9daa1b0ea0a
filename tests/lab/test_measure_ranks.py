"""Rank measures against written-out arithmetic, properties, and pytrec_eval where it installs."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from exam_helpers import query
from surefind.lab.exam.model import Judgment
from surefind.lab.measure.ranks import MEASURES, ChunkSpans, Judge, Level
from surefind.testing import rankings_of

ALL = sorted(MEASURES)


def places(*chunks: tuple[str, int, int]) -> ChunkSpans:
    """Chunks by ordinal: document, start, end."""
    numbers = {key: i for i, key in enumerate(dict.fromkeys(key for key, _, _ in chunks))}
    documents, starts, ends = (np.array(column) for column in zip(*chunks, strict=True))
    return ChunkSpans(np.array([numbers[key] for key in documents]), starts.astype(int), ends.astype(int), numbers)


def score(
    measure: str,
    k: int,
    ranked: Sequence[int],
    judgments: Sequence[Judgment],
    where: ChunkSpans,
    level: Level = "document",
) -> float:
    ranking = rankings_of([(ranked, [float(-r) for r in range(len(ranked))])])
    gains = Judge([query("q", "?", *judgments)], where).gains(ranking, level)
    return float(MEASURES[measure](gains, k)[0])


WHOLE = places(*((key, 0, 100) for key in "abcdef"))
"""One chunk a document: ordinal 0 is a, 1 is b …"""
GRADED = (Judgment("a", grade=3), Judgment("b", grade=2), Judgment("c", grade=1))


# ---------------------------------------------------------------- documents, written out


def test_ndcg_of_graded_documents() -> None:
    expected = (3 / log2(2) + 1 / log2(4)) / (3 / log2(2) + 2 / log2(3) + 1 / log2(4))
    assert score("nDCG", 10, [0, 4, 2], GRADED, WHOLE) == pytest.approx(expected)


def test_ndcg_divides_by_the_best_that_fits_into_k() -> None:
    assert score("nDCG", 1, [1], GRADED, WHOLE) == pytest.approx(2 / 3)


def test_ndcg_takes_the_grade_itself_as_gain() -> None:
    expected = (2 / log2(2) + 3 / log2(3)) / (3 / log2(2) + 2 / log2(3))
    assert score("nDCG", 2, [1, 0], GRADED[:2], WHOLE) == pytest.approx(expected)


def test_all_is_one_if_every_relevant_document_is_within_k() -> None:
    assert score("All", 3, [2, 0, 1], GRADED, WHOLE) == 1
    assert score("All", 2, [2, 0, 1], GRADED, WHOLE) == 0
    assert score("All", 10, [2, 0, 4], GRADED, WHOLE) == 0


def test_rr_is_one_over_the_rank_of_the_first_relevant() -> None:
    assert score("RR", 10, [3, 4, 1, 0], GRADED, WHOLE) == pytest.approx(1 / 3)


def test_rr_does_not_look_below_k() -> None:
    assert score("RR", 2, [3, 4, 0], GRADED, WHOLE) == 0


def test_ap_divides_by_all_relevant_documents() -> None:
    assert score("AP", 10, [0, 4, 2], GRADED, WHOLE) == pytest.approx((1 / 1 + 2 / 3) / 3)


def test_ap_stops_at_k() -> None:
    assert score("AP", 2, [0, 4, 2], GRADED, WHOLE) == pytest.approx((1 / 1) / 3)


def test_recall_is_the_share_of_relevant_documents_within_k() -> None:
    assert score("R", 2, [0, 1, 2], GRADED, WHOLE) == pytest.approx(2 / 3)


def test_precision_divides_by_k_however_short_the_ranking_is() -> None:
    assert score("P", 5, [0, 1], GRADED, WHOLE) == pytest.approx(2 / 5)


@each(("k", "expected"), [(1, 0.0), (2, 1.0)])
def test_success_says_whether_anything_relevant_is_within_k(k: int, expected: float) -> None:
    assert score("Success", k, [5, 0], GRADED, WHOLE) == expected


@each("measure", ALL)
def test_empty_ranking_scores_nothing(measure: str) -> None:
    assert score(measure, 10, [], GRADED, WHOLE) == 0


@each("measure", ALL)
def test_query_without_relevant_documents_scores_nothing(measure: str) -> None:
    assert score(measure, 10, [0, 1], [Judgment("a", grade=0)], WHOLE) == 0


@each("measure", ALL)
def test_document_judged_not_relevant_counts_as_unjudged(measure: str) -> None:
    zero = (Judgment("a", grade=1), Judgment("b", grade=0))
    assert score(measure, 3, [1, 0], zero, WHOLE) == score(measure, 3, [1, 0], zero[:1], WHOLE)


def test_unjudged_documents_are_those_that_no_judgment_names() -> None:
    ranking = rankings_of([([4, 0, 1, 3], [4.0, 3.0, 2.0, 1.0]), ([], [])])
    judge = Judge([query("q", "?", Judgment("a", grade=1), Judgment("b", grade=0)), query("r", "?")], WHOLE)
    assert judge.unjudged(ranking, 10).tolist() == [0.5, 0.0]
    assert judge.unjudged(ranking, 1).tolist() == [1.0, 0.0]


def test_unjudged_documents_count_once_however_many_passages_they_have() -> None:
    halves = places(("a", 0, 50), ("a", 50, 100), ("b", 0, 50), ("b", 50, 100))
    ranking = rankings_of([([2, 3, 0, 1], [4.0, 3.0, 2.0, 1.0])])
    assert Judge([query("q", "?", Judgment("a"))], halves).unjudged(ranking, 10).tolist() == [0.5]


def test_relevant_document_that_was_never_indexed_still_counts_in_recall() -> None:
    assert score("R", 10, [0], [Judgment("a"), Judgment("nowhere")], WHOLE) == 1 / 2


def test_document_judged_twice_has_its_higher_grade() -> None:
    twice = (Judgment("a", grade=1), Judgment("a", grade=3), Judgment("b", grade=2))
    expected = (2 / log2(2) + 3 / log2(3)) / (3 / log2(2) + 2 / log2(3))
    assert score("nDCG", 10, [1, 0], twice, WHOLE) == pytest.approx(expected)


def test_queries_of_one_batch_do_not_touch_each_other() -> None:
    queries = [query("1", "?", Judgment("a")), query("2", "?", Judgment("b")), query("3", "?", Judgment("c"))]
    ranking = rankings_of([([0, 1], [2.0, 1.0]), ([0, 1], [2.0, 1.0]), ([], [])])
    found = MEASURES["RR"](Judge(queries, WHOLE).gains(ranking, "document"), 10)
    assert found.tolist() == [1, 1 / 2, 0]


# ---------------------------------------------------------------- documents of several chunks

CUT = places(("a", 0, 100), ("a", 100, 200), ("b", 0, 100), ("b", 100, 200), ("c", 0, 100))


def test_a_document_stands_at_the_rank_of_its_first_chunk() -> None:
    # b b a a: the second document is a.
    assert score("RR", 10, [3, 2, 1, 0], [Judgment("a")], CUT) == 1 / 2


def test_further_chunks_of_a_document_take_no_rank() -> None:
    # a a b c: c is the third document, not the fourth.
    assert score("nDCG", 3, [0, 1, 2, 4], [Judgment("c")], CUT) == pytest.approx(1 / log2(4))


def test_span_judgments_count_for_their_document() -> None:
    assert score("RR", 10, [0], [Judgment("a", 100, 150)], CUT) == 1


# ---------------------------------------------------------------- spans


@each(("start", "end", "found"), [(50, 150, 1.0), (60, 160, 0.0), (0, 10, 1.0)])
def test_chunk_covers_a_span_from_half_of_it_on(start: int, end: int, found: float) -> None:
    assert score("Success", 1, [0], [Judgment("a", start, end)], CUT, "span") == found


def test_span_found_twice_counts_once() -> None:
    both = [Judgment("a", 50, 150)]
    assert score("P", 2, [0, 1], both, CUT, "span") == 1 / 2


def test_span_of_another_document_at_the_same_place_is_not_covered() -> None:
    assert score("RR", 10, [2, 0], [Judgment("a", 0, 50)], CUT, "span") == 1 / 2


def test_ndcg_of_graded_spans() -> None:
    graded = [Judgment("a", 0, 50, 1), Judgment("b", 0, 50, 2)]
    expected = (1 / log2(2) + 2 / log2(3)) / (2 / log2(2) + 1 / log2(3))
    assert score("nDCG", 10, [0, 2], graded, CUT, "span") == pytest.approx(expected)


def test_any_chunk_covers_a_whole_document_at_span_level() -> None:
    assert score("RR", 10, [1], [Judgment("a")], CUT, "span") == 1


def test_recall_counts_every_span_that_one_chunk_covers() -> None:
    assert score("R", 10, [0], [Judgment("a", 0, 20), Judgment("a", 50, 70)], CUT, "span") == 1


def test_ndcg_of_two_spans_in_one_chunk_is_at_most_one() -> None:
    assert score("nDCG", 10, [0], [Judgment("a", 0, 20), Judgment("a", 50, 70)], CUT, "span") <= 1


# ---------------------------------------------------------------- chunks


def test_every_chunk_that_shares_half_of_the_span_is_relevant() -> None:
    assert score("P", 2, [0, 1], [Judgment("a", 50, 150)], CUT, "chunk") == 1


def test_chunk_that_lies_half_inside_a_long_span_is_relevant() -> None:
    assert score("R", 1, [1], [Judgment("a", 0, 160)], CUT, "chunk") == 1 / 2


def test_chunk_that_touches_the_span_slightly_is_not_relevant() -> None:
    assert score("Success", 1, [1], [Judgment("a", 10, 110)], CUT, "chunk") == 0


def test_all_chunks_of_a_judged_document_are_relevant() -> None:
    assert score("AP", 10, [0, 2, 1], [Judgment("a")], CUT, "chunk") == pytest.approx((1 / 1 + 2 / 3) / 2)


def test_chunk_of_two_spans_has_the_higher_grade() -> None:
    spans = [Judgment("a", 0, 20, 1), Judgment("a", 30, 50, 3), Judgment("b", 0, 50, 2)]
    expected = (2 / log2(2) + 3 / log2(3)) / (3 / log2(2) + 2 / log2(3))
    assert score("nDCG", 10, [2, 0], spans, CUT, "chunk") == pytest.approx(expected)


# ---------------------------------------------------------------- properties

grades = st.lists(st.integers(0, 3), min_size=2, max_size=12)


def of_grades(measure: str, k: int, ranked: Sequence[int], unranked: Sequence[int] = ()) -> float:
    """The score of documents with these grades in this order."""
    where = places(*((str(i), 0, 10) for i in range(len(ranked) + len(unranked))))
    judgments = [Judgment(str(i), grade=grade) for i, grade in enumerate([*ranked, *unranked])]
    return score(measure, k, range(len(ranked)), judgments, where)


@given(grades, st.lists(st.integers(0, 3), max_size=5), st.sampled_from(ALL), st.integers(1, 15))
def test_measures_are_from_0_to_1(ranked: list[int], unranked: list[int], measure: str, k: int) -> None:
    assert 0 <= of_grades(measure, k, ranked, unranked) <= 1 + 1e-12


@given(grades.filter(any), st.sampled_from(["nDCG", "RR", "AP", "R", "Success"]))
def test_ideal_ranking_scores_1(ranked: list[int], measure: str) -> None:
    assert of_grades(measure, len(ranked), sorted(ranked, reverse=True)) == pytest.approx(1)


@given(grades, st.sampled_from(["nDCG", "AP", "RR"]), st.integers(1, 15), st.data())
def test_moving_a_better_document_up_never_lowers_the_score(
    ranked: list[int], measure: str, k: int, data: st.DataObject
) -> None:
    i = data.draw(st.integers(0, len(ranked) - 2))
    j = data.draw(st.integers(i + 1, len(ranked) - 1))
    swapped = list(ranked)
    swapped[i], swapped[j] = max(ranked[i], ranked[j]), min(ranked[i], ranked[j])
    assert of_grades(measure, k, swapped) >= of_grades(measure, k, ranked) - 1e-12


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_documents_are_ranked_by_their_first_chunk_whatever_the_order(owners: list[int]) -> None:
    where = places(*((str(owner), i, i + 1) for i, owner in enumerate(owners)))
    last = list(dict.fromkeys(owners))[-1]
    expected = 1 / len(set(owners))
    assert score("RR", 10, range(len(owners)), [Judgment(str(last))], where) == pytest.approx(expected)


def test_random_runs_agree_with_pytrec_eval() -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    names = {
        "nDCG": "ndcg_cut_5",
        "AP": "map_cut_5",
        "R": "recall_5",
        "P": "P_5",
        "RR": "recip_rank",
        "Success": "success_5",
    }
    rng = np.random.default_rng(3)
    for _ in range(50):
        order, judged = rng.permutation(20), rng.integers(0, 4, 20)
        judged[rng.random(20) < 0.5] = 0
        qrels = {"q": {str(i): int(grade) for i, grade in enumerate(judged)}}
        run = {"q": {str(i): float(-r) for r, i in enumerate(order)}}
        theirs = pytrec_eval.RelevanceEvaluator(
            qrels, {"ndcg_cut.5", "map_cut.5", "recall.5", "P.5", "recip_rank", "success.5"}
        ).evaluate(run)["q"]
        where = places(*((str(i), 0, 10) for i in range(20)))
        judgments = [Judgment(str(i), grade=int(grade)) for i, grade in enumerate(judged)]
        for measure, name in names.items():
            k = 20 if measure == "RR" else 5
            assert score(measure, k, order.tolist(), judgments, where) == pytest.approx(theirs[name])
