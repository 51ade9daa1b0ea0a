"""The p-values of the sign-flip permutation test, against enumeration of all flips."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from numpy.typing import NDArray

from cases import each
from surefind.lab.measure.statistics import permutation_p

Floats = NDArray[np.float64]


def column(*values: float) -> Floats:
    return np.array(values, dtype=float)[:, None]


def enumerated(differences: Floats) -> float:
    """p over all 2^n ways to flip signs. The sums of each half of the differences are enumerated, then counted in
    pairs, so up to 40 differences are feasible."""
    sizes = np.abs(differences[differences != 0])
    bound = abs(differences.sum()) - 1e-9 * sizes.sum()
    if bound <= 0:
        return 1.0
    half = len(sizes) // 2
    left, right = np.sort(_sums(sizes[:half])), _sums(sizes[half:])
    return float(2 * (len(left) - np.searchsorted(left, bound - right)).sum() / 2.0 ** len(sizes))


def _sums(sizes: Floats) -> Floats:
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate([sums + size, sums - size])
    return sums


def ndcg_differences(rng: np.random.Generator, questions: int, worse: float) -> Floats:
    """nDCG@10 of two configurations with one gold document per question, of which the second finds the document later.
    Many questions have the same rank in both, so many differences are zero."""
    chance = rng.beta(0.7, 0.7, questions).clip(0.02, 1)
    ranks = rng.geometric(chance), rng.geometric((chance * worse).clip(0.02, 1))
    first, second = (np.where(rank <= 10, 1 / np.log2(rank + 1), 0.0) for rank in ranks)
    return np.where(rng.random(questions) < 0.3, 0.0, first - second)


@each("seed", range(8))
def test_p_is_that_of_full_enumeration(seed: int) -> None:
    differences = np.random.default_rng(seed).normal(0.35, 1, 10)
    assert permutation_p(differences[:, None])[0] == pytest.approx(enumerated(differences), rel=0.02)


@each("questions", [30, 45, 60])
@each("worse", [1.0, 0.5, 0.3, 0.15])
def test_p_of_ndcg_differences_is_that_of_full_enumeration(questions: int, worse: float) -> None:
    rng = np.random.default_rng([questions, int(100 * worse)])
    columns = np.stack([ndcg_differences(rng, questions, worse) for _ in range(12)], axis=1)
    columns = columns[:, (columns != 0).sum(axis=0) <= 36]
    ratio = permutation_p(columns) / [enumerated(one) for one in columns.T]
    assert len(ratio) >= 5 and ratio.min() >= 0.99 and ratio.max() <= 1.05


def test_p_of_many_questions_is_close_to_a_finer_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    columns = np.stack([ndcg_differences(rng, 900, worse) for worse in (1, 0.95, 0.9, 0.85, 0.8) * 3], axis=1)
    found = permutation_p(columns)
    monkeypatch.setattr("surefind.lab.measure.statistics._CELLS", 2**16)
    exact = permutation_p(columns)
    relevant = exact > 1e-12
    assert relevant.sum() >= 8 and found[relevant] == pytest.approx(exact[relevant], rel=0.03)


@each(("better", "worse"), [(9, 1), (30, 8), (200, 130), (1200, 900)])
def test_p_of_equal_sizes_is_that_of_the_sign_test(better: int, worse: int) -> None:
    n = better + worse
    exact = 2 * sum(comb(n, k) for k in range(worse + 1)) / 2**n
    assert permutation_p(column(*[0.3] * better, *[-0.3] * worse))[0] == pytest.approx(exact, rel=1e-9)


def test_p_counts_sums_that_tie_with_the_observed_one() -> None:
    # The negative differences add up to 0.3. Six of 2^4 subsets add up to no more: none, 0.1, 0.2, 0.3, 0.3 and
    # 0.1 + 0.2, although the floating-point sum of 0.1 and 0.2 is above 0.3.
    assert permutation_p(column(-0.3, 0.1, 0.2, 0.3))[0] == 2 * 6 / 2**4


def test_p_of_one_difference_is_1() -> None:
    assert permutation_p(column(0.4, *[0] * 30))[0] == 1


def test_p_of_no_difference_is_1() -> None:
    assert permutation_p(column(*[0] * 10))[0] == 1


def test_p_of_differences_that_cancel_out_is_1() -> None:
    assert permutation_p(column(0.1, 0.2, -0.3))[0] == 1


def test_rounding_errors_are_no_differences() -> None:
    assert permutation_p(column(*[0.5] * 8, *[1e-17] * 40))[0] == 2 / 2**8


@each("n", [2, 8, 20, 60, 300])
def test_p_of_all_one_way_is_two_in_all_flips(n: int) -> None:
    assert permutation_p(column(*np.linspace(0.2, 0.3, n)))[0] == pytest.approx(2 / 2.0**n)


def test_p_is_above_0_for_any_number_of_questions() -> None:
    assert 0 < permutation_p(column(*[0.2] * 3000))[0] < 1e-200


def test_p_is_two_sided() -> None:
    differences = np.random.default_rng(3).normal(0.3, 1, (15, 1))
    assert permutation_p(differences)[0] == permutation_p(-differences)[0]


def test_p_does_not_depend_on_the_scale_of_the_scores() -> None:
    differences = np.random.default_rng(4).normal(0.2, 1, (30, 1))
    assert permutation_p(differences * 1e-3)[0] == pytest.approx(permutation_p(differences)[0])


def test_a_column_has_the_same_p_in_any_company() -> None:
    differences = np.random.default_rng(5).normal(0.1, 1, (40, 3))
    assert permutation_p(differences)[2] == permutation_p(differences[:, 2:])[0]


def test_p_without_questions_is_1() -> None:
    assert permutation_p(np.zeros((0, 2))).tolist() == [1, 1]


# ---------------------------------------------------------------- clusters


def test_a_cluster_is_flipped_as_a_whole() -> None:
    differences = np.random.default_rng(6).normal(0.3, 1, (36, 2))
    clusters = np.arange(36) // 3
    sums = differences.reshape(12, 3, 2).sum(axis=1)
    assert permutation_p(differences, clusters).tolist() == permutation_p(sums).tolist()


def test_clusters_of_one_question_change_nothing() -> None:
    differences = np.random.default_rng(7).normal(0.3, 1, (30, 2))
    clusters = np.random.default_rng(7).permutation(30)
    assert permutation_p(differences, clusters).tolist() == permutation_p(differences).tolist()


def test_repeating_each_question_does_not_make_a_difference_significant() -> None:
    differences = np.random.default_rng(8).normal(0.2, 1, (25, 1))
    repeated = permutation_p(np.repeat(differences, 6, axis=0), np.repeat(np.arange(25), 6))
    assert repeated[0] == pytest.approx(permutation_p(differences)[0], rel=0.02)
    assert permutation_p(np.repeat(differences, 6, axis=0))[0] < repeated[0]
