"""Intervals, corrections, letters: against written-out values and simulation."""

from __future__ import annotations

import re
from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from cases import each
from surefind.lab.measure.statistics import (
    Comparison,
    bootstrap,
    compare_all,
    holm,
    letters,
    paired_t,
    t_quantile,
    wilson,
)

Floats = NDArray[np.float64]


def column(*values: float) -> Floats:
    return np.array(values, dtype=float)[:, None]


# ---------------------------------------------------------------- bootstrap


def test_interval_of_a_coin_is_the_normal_one() -> None:
    coin = column(*[0, 1] * 100)
    (found,) = bootstrap(coin)
    spread = 1.96 * sqrt(0.25 / 200)
    assert (found.mean, found.low, found.high) == pytest.approx((0.5, 0.5 - spread, 0.5 + spread), abs=0.01)


def test_interval_of_equal_scores_has_no_width() -> None:
    (found,) = bootstrap(column(*[0.3] * 20))
    assert (found.mean, found.low, found.high) == pytest.approx((0.3, 0.3, 0.3))


def test_interval_of_paired_differences_by_hand() -> None:
    (found,) = paired_t(column(*[0.2, 0.0] * 5))
    error = sqrt(10 * 0.1**2 / 9) / sqrt(10)  # the spread of one question is 0.105
    assert found.mean == pytest.approx(0.1)
    assert (found.low, found.high) == pytest.approx((0.1 - 2.262 * error, 0.1 + 2.262 * error), abs=1e-4)


@each("p", [0.95, 0.975])
def test_quantiles_of_student_are_those_of_scipy(p: float) -> None:
    for freedom, most in ((9, 4e-4), (15, 6e-5), (29, 1e-5), (300, 1e-5)):
        assert t_quantile(p, freedom) == pytest.approx(stats.t.ppf(p, freedom), abs=most)


def test_an_interval_leaves_out_zero_if_the_paired_test_finds_a_difference() -> None:
    drawn = np.random.default_rng(2).normal(0.3, 1, (40, 200))
    found = [interval.low > 0 or interval.high < 0 for interval in paired_t(drawn)]
    assert found == (stats.ttest_1samp(drawn, 0).pvalue < 0.05).tolist()


def test_intervals_are_the_same_every_time() -> None:
    scores = np.random.default_rng(1).random((40, 3))
    assert bootstrap(scores, 500) == bootstrap(scores, 500)


def test_a_column_has_the_same_interval_in_any_company() -> None:
    scores = np.random.default_rng(1).random((40, 3))
    among, alone = bootstrap(scores, 500)[2], bootstrap(scores[:, 2:], 500)[0]
    assert (among.low, among.high) == pytest.approx((alone.low, alone.high))


def test_resamples_are_paired() -> None:
    base = np.random.default_rng(1).random(40)
    (found,) = compare_all(np.stack([base + 0.1, base], axis=1), 500)
    assert (found.low, found.high) == pytest.approx((0.1, 0.1))


def test_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    samples = rng.beta(0.5, 0.5, size=(60, 300))
    covered = sum(found.low <= 0.5 <= found.high for found in bootstrap(samples, 1000))
    assert 0.90 <= covered / 300 <= 0.99


# ---------------------------------------------------------------- Holm


def test_holm_by_hand() -> None:
    # 0.005*4, 0.01*3, 0.03*2; then 0.04*1 is raised to the 0.06 before it.
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_never_exceeds_1() -> None:
    assert holm(np.array([0.9, 0.8, 0.7])).tolist() == [1, 1, 1]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_lies_between_the_plain_p_and_bonferroni(p: list[float]) -> None:
    found = holm(np.array(p))
    assert (found >= np.array(p) - 1e-12).all() and (found <= np.minimum(1, np.array(p) * len(p)) + 1e-12).all()


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_holm_keeps_the_order(p: list[float]) -> None:
    order = np.argsort(p, kind="stable")
    assert (np.diff(holm(np.array(p))[order]) >= 0).all()


# ---------------------------------------------------------------- comparisons and letters


def made(a: int, b: int, significant: bool) -> Comparison:
    return Comparison(a, b, 0.0, 0.0, 0.0, 0.0, 0.01 if significant else 0.5)


def marks(text: str) -> set[str]:
    return set(re.findall(r"[a-z]|\(\d+\)", text))


def test_all_pairs_are_compared_once() -> None:
    scores = np.random.default_rng(0).random((20, 4))
    assert [(c.a, c.b) for c in compare_all(scores, 100)] == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def test_difference_says_how_much_better_the_first_is() -> None:
    scores = np.stack([np.full(20, 0.7), np.full(20, 0.4)], axis=1)
    assert compare_all(scores, 100)[0].difference == pytest.approx(0.3)


def test_one_configuration_has_nothing_to_be_compared_with() -> None:
    assert compare_all(np.zeros((5, 1))) == []


def test_comparisons_are_the_same_every_time() -> None:
    scores = np.random.default_rng(2).random((30, 4))
    assert compare_all(scores, 300) == compare_all(scores, 300)


def test_clear_difference_is_significant() -> None:
    rng = np.random.default_rng(0)
    base = rng.random(100)
    assert compare_all(np.stack([base + 0.2 + rng.normal(0, 0.1, 100), base], axis=1), 1000)[0].significant


def test_letters_of_a_chain() -> None:
    # The best and the worst differ; the middle one is like both.
    pairs = [made(0, 1, False), made(0, 2, True), made(1, 2, False)]
    assert letters([0.9, 0.5, 0.1], pairs) == ["a", "ab", "b"]


def test_letter_a_goes_to_the_best_wherever_it_stands() -> None:
    pairs = [made(0, 1, True), made(0, 2, True), made(1, 2, True)]
    assert letters([0.1, 0.9, 0.5], pairs) == ["c", "a", "b"]


def test_configurations_that_cannot_be_told_apart_all_have_a() -> None:
    assert letters([0.3, 0.2], [made(0, 1, False)]) == ["a", "a"]


@given(st.integers(0, 10_000), st.integers(2, 9), st.sampled_from([0.0, 0.1, 0.3, 0.8]))
def test_two_share_a_letter_exactly_if_they_cannot_be_told_apart(seed: int, configurations: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    scores = (
        rng.normal(0, 0.3, (40, 1)) + rng.normal(0, spread, configurations) + rng.normal(0, 0.3, (40, configurations))
    )
    comparisons = compare_all(scores, 200)
    shown = [marks(text) for text in letters(scores.mean(axis=0).tolist(), comparisons)]
    assert all(bool(shown[c.a] & shown[c.b]) != c.significant for c in comparisons)


# ---------------------------------------------------------------- Wilson


@each(
    ("successes", "trials", "low", "high"),
    [(8, 10, 0.490, 0.943), (0, 10, 0.0, 0.278), (10, 10, 0.722, 1.0), (50, 100, 0.404, 0.596), (1, 30, 0.006, 0.167)],
)
def test_wilson_has_the_published_values(successes: int, trials: int, low: float, high: float) -> None:
    found = wilson(successes, trials)
    assert (found.low, found.high) == pytest.approx((low, high), abs=6e-4)


def test_wilson_of_no_trials_says_nothing() -> None:
    found = wilson(0, 0)
    assert (found.low, found.high) == (0, 1)


@given(st.integers(1, 500), st.data())
def test_wilson_holds_the_share_and_stays_a_proportion(trials: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, trials))
    found = wilson(successes, trials)
    assert found.low - 0 >= -1e-12 and found.low <= successes / trials + 1e-12
    assert successes / trials - 1e-12 <= found.high <= 1


@each("chance", [0.1, 0.5, 0.9])
def test_wilson_covers_the_true_proportion(chance: float) -> None:
    n = 30
    inside = [k for k in range(n + 1) if wilson(k, n).low <= chance <= wilson(k, n).high]
    assert sum(comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in inside) >= 0.93


# ---------------------------------------------------------------- the whole selection


def test_identical_configurations_are_rarely_told_apart() -> None:
    """60 benchmarks of 15 identical configurations (benchmarks/type_one_error.py runs 500 with all flips): at a rate
    of 5%, more than 7 would happen once in a hundred times."""
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(60):
        chance = rng.beta(0.7, 0.7, size=(60, 1)).clip(0.02, 1)
        rank = rng.geometric(np.broadcast_to(chance, (60, 15)))
        scores = np.where(rank <= 10, 1 / np.log2(rank + 1), 0.0)
        wrong += any(c.significant for c in compare_all(scores, 1000))
    assert wrong <= 7
