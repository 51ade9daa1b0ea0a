"""Reliability of probabilities: written-out arithmetic, and scikit-learn where it has the same measure."""

from __future__ import annotations

import numpy as np
import pytest

from cases import each
from surefind.lab.measure.thresholds import Bin, auc, brier, calibration_error, error_by_chance, reliability

P = np.array([0.9, 0.1, 0.8, 0.2])
SUCCESS = np.array([True, False, True, True])


def test_bins_hold_equal_numbers_in_order_of_the_probability() -> None:
    assert reliability(P, SUCCESS, 2) == [Bin(pytest.approx(0.15), 0.5, 2), Bin(pytest.approx(0.85), 1.0, 2)]


def test_calibration_error_written_out() -> None:
    assert calibration_error(P, SUCCESS, 2) == pytest.approx(2 / 4 * abs(0.15 - 0.5) + 2 / 4 * abs(0.85 - 1.0))


def test_uneven_bins_count_by_their_questions() -> None:
    found = calibration_error(np.array([0.1, 0.2, 0.9]), np.array([False, False, True]), 2)
    assert found == pytest.approx(2 / 3 * 0.15 + 1 / 3 * 0.1)


def test_fewer_questions_than_bins_are_a_bin_each() -> None:
    assert [one.count for one in reliability(P, SUCCESS, 10)] == [1, 1, 1, 1]


def test_brier_written_out() -> None:
    assert brier(P, SUCCESS) == pytest.approx((0.1**2 + 0.1**2 + 0.2**2 + 0.8**2) / 4)


def test_auc_is_that_of_scikit_learn_with_ties() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    p, success = np.round(rng.random(300), 1), rng.random(300) < 0.4
    assert auc(p, success) == pytest.approx(metrics.roc_auc_score(success, p))
    assert brier(p, success) == pytest.approx(metrics.brier_score_loss(success, p))


@each("success", [True, False])
def test_auc_needs_both_outcomes(success: bool) -> None:
    assert auc(P, np.full(4, success)) is None


def test_chance_alone_makes_an_error_that_shrinks_with_the_questions() -> None:
    few, many = (error_by_chance(np.full(count, 0.5)) for count in (50, 5000))
    assert few > 0.1 > 0.02 > many > 0


def test_certain_probabilities_leave_nothing_to_chance() -> None:
    assert error_by_chance(np.array([0.0, 1.0, 1.0, 0.0])) == 0
