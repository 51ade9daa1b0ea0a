"""Questions about the same document are resampled together."""

from __future__ import annotations

import numpy as np
import pytest

from surefind.lab.exam.model import ExamQuery, Judgment, clusters_of
from surefind.lab.measure.statistics import MIN_CLUSTERS, bootstrap, compare_all, grouped


def test_sums_and_sizes_of_each_cluster() -> None:
    scores = np.arange(2.0 * MIN_CLUSTERS + 1)[:, None]
    clusters = np.append(np.arange(2 * MIN_CLUSTERS) % MIN_CLUSTERS, 0)
    sums, sizes = grouped(scores, clusters)
    assert sums[:, 0].tolist() == [
        0 + MIN_CLUSTERS + 2 * MIN_CLUSTERS,
        *(2 * i + MIN_CLUSTERS for i in range(1, MIN_CLUSTERS)),
    ]
    assert sizes.tolist() == [3, *[2] * (MIN_CLUSTERS - 1)]


def test_without_clusters_each_question_stands_for_itself() -> None:
    scores = np.random.default_rng(0).random((12, 3))
    sums, sizes = grouped(scores, None)
    assert (sums == scores).all() and sizes.tolist() == [1] * 12


def test_a_few_clusters_are_too_few_to_resample() -> None:
    # With one document, resampling documents would give every interval a width of zero.
    scores = np.random.default_rng(0).random((60, 2))
    assert bootstrap(scores, 500, clusters=np.zeros(60, np.int64)) == bootstrap(scores, 500)
    assert bootstrap(scores, 500, clusters=np.arange(60) % (MIN_CLUSTERS - 1)) == bootstrap(scores, 500)
    assert bootstrap(scores, 500, clusters=np.arange(60) % MIN_CLUSTERS) != bootstrap(scores, 500)


def test_clusters_of_one_question_change_no_interval() -> None:
    scores = np.random.default_rng(1).random((40, 3))
    alone = np.random.default_rng(1).permutation(40)
    assert bootstrap(scores, 500, clusters=alone) == bootstrap(scores, 500)
    assert compare_all(scores, 500, clusters=alone) == compare_all(scores, 500)


def test_mean_stays_the_mean_over_questions() -> None:
    scores = np.random.default_rng(2).random((30, 1))
    clusters = np.array([0] * 11 + list(range(1, 20)))
    assert bootstrap(scores, 500, clusters=clusters)[0].mean == pytest.approx(scores.mean())


def test_interval_of_repeated_questions_is_that_of_the_questions() -> None:
    scores = np.random.default_rng(3).random((30, 2))
    repeated, clusters = np.repeat(scores, 5, axis=0), np.repeat(np.arange(30), 5)
    for many, once in zip(bootstrap(repeated, clusters=clusters), bootstrap(scores), strict=True):
        assert (many.low, many.high) == pytest.approx((once.low, once.high))
    (many,), (once,) = compare_all(repeated, clusters=clusters), compare_all(scores)
    assert (many.low, many.high, many.p) == pytest.approx((once.low, once.high, once.p), rel=0.02)


def test_interval_covers_the_true_mean_where_questions_depend_on_their_document() -> None:
    rng = np.random.default_rng(4)
    clusters = np.repeat(np.arange(40), 5)
    easy = np.repeat(rng.normal(0, 0.3, (40, 300)), 5, axis=0)
    samples = easy + rng.normal(0, 0.2, easy.shape)
    inside = [sum(i.low <= 0 <= i.high for i in bootstrap(samples, 1000, clusters=c)) for c in (clusters, None)]
    assert inside[0] / 300 > 0.9 and inside[1] / 300 < 0.8


def test_identical_configurations_are_rarely_told_apart_where_questions_depend_on_their_document() -> None:
    rng = np.random.default_rng(5)
    clusters = np.repeat(np.arange(40), 5)
    wrong = [0, 0]
    for _ in range(60):
        scores = np.repeat(rng.normal(0, 0.3, (40, 5)), 5, axis=0) + rng.normal(0, 0.2, (200, 5))
        for i, by in enumerate((clusters, None)):
            wrong[i] += any(c.significant for c in compare_all(scores, 100, clusters=by))
    assert wrong[0] <= 7 < 20 < wrong[1]


# ---------------------------------------------------------------- the gold document


def query(key: str, *judgments: tuple[str, int]) -> ExamQuery:
    return ExamQuery(key, f"question {key}", tuple(Judgment(document, grade=grade) for document, grade in judgments))


def test_questions_about_the_same_document_are_one_cluster() -> None:
    found = clusters_of([query("1", ("a", 1)), query("2", ("b", 1)), query("3", ("a", 1))])
    assert found.tolist() == [0, 1, 0]


def test_gold_document_is_the_first_with_the_highest_grade() -> None:
    found = clusters_of(
        [query("1", ("a", 1), ("b", 2), ("c", 2)), query("2", ("b", 1), ("c", 1)), query("3", ("c", 1))]
    )
    assert found.tolist() == [0, 0, 1]


def test_questions_without_a_relevant_document_stand_for_themselves() -> None:
    found = clusters_of([query("1", ("a", 0)), query("2"), query("3", ("a", 1)), query("4", ("a", 0))])
    assert len(set(found.tolist())) == 4
