"""Measures of confidence by written-out arithmetic, and the predictor against scikit-learn."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import each
from surefind.base.disk.sealed import from_json, to_json
from surefind.base.errors import SpecError, StoreError
from surefind.base.types import Rankings
from surefind.engine.confidence.predictor import (
    FILE,
    LogisticModel,
    SavedModel,
    SavedThreshold,
    cross_fitted,
    find_calibration,
    fit,
    write_calibration,
)
from surefind.engine.confidence.signals import MEASURED, confidence, features
from surefind.testing import Row, rankings_of


def dense(*rows: Row) -> Rankings:
    return rankings_of(rows, "dense", "dense", -1.0)


FUSED = rankings_of([([1, 2, 3], [1.0, 0.6, 0.5]), ([7], [0.4]), ([], [])])
WORDS = rankings_of([([1, 2, 3], [8.0, 4.0, 2.0]), ([7], [3.0]), ([], [])])
MEANING = dense(([2, 1, 4], [0.6, 0.5, 0.2]), ([], []), ([], []))


# ---------------------------------------------------------------- measures


def test_measures_written_out() -> None:
    found = {when: float(confidence(FUSED, [WORDS, MEANING], when)[0]) for when in MEASURED}
    # Of the first d passages, both have 0, 2, 2 and then 2 (d = 4 … 10).
    agreement = (0 / 1 + 2 / 2 + 2 / 3 + sum(2 / d for d in range(4, 11))) / 10
    lead = ((1 - 4.0 / 8.0) + (1 - 1.5 / 1.6)) / 2  # cosines count from -1
    assert found == pytest.approx(
        {"max": 1.0, "margin": (1.0 - 0.6) / (1.0 - 0.5), "agreement": agreement, "raw": lead}, abs=1e-6
    )


@each("when", MEASURED)
def test_nothing_to_reorder_is_sure(when: Any) -> None:
    assert confidence(FUSED, [WORDS, MEANING], when)[1:].tolist() == [np.inf, np.inf]


def test_features_are_finite_whatever_was_found() -> None:
    found = features(FUSED, [WORDS, MEANING])
    assert found.shape == (3, 4 + 2 * 3)
    assert np.isfinite(found).all()
    assert np.isfinite(features(FUSED, [WORDS])).all()


# ---------------------------------------------------------------- the predictor


def questions(count: int = 300) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(count, 4)) * [1, 5, 0.1, 0] + 2
    return values, rng.random(count) < 1 / (1 + np.exp(-(values[:, 0] - 2) * 2 - 1))


def test_fit_is_that_of_scikit_learn() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    x, y = questions()
    made = fit(x, y, strength=2.0)
    z = (x - made.means) / made.scales
    reference = linear.LogisticRegression(C=1 / 2.0, tol=1e-10, max_iter=1000).fit(z, y)
    assert made(x) == pytest.approx(reference.predict_proba(z)[:, 1], abs=1e-4)
    assert made(x).mean() == pytest.approx(y.mean(), abs=1e-4)


@each("value", [True, False])
def test_questions_that_all_end_alike_can_be_fitted(value: bool) -> None:
    x, _ = questions(50)
    made = fit(x, np.full(50, value))(x)
    assert np.isfinite(made).all() and ((made > 0.5) == value).all()


def test_cross_fitting_predicts_a_question_without_its_group() -> None:
    x, y = questions()
    groups = np.arange(len(x)) // 3
    found = cross_fitted(x, y, groups)
    flipped = y.copy()
    flipped[:3] = ~flipped[:3]  # the first group alone
    assert cross_fitted(x, flipped, groups)[:3] == pytest.approx(found[:3])
    assert cross_fitted(x, flipped, groups)[3:] != pytest.approx(found[3:])


def test_predictor_reads_back() -> None:
    x, y = questions()
    made = fit(x, y)
    again = LogisticModel.of(from_json(SavedModel, json.loads(json.dumps(to_json(made.saved)))))
    assert again(x) == pytest.approx(made(x))


# ---------------------------------------------------------------- on disk

DATA = SavedThreshold(
    name="quick",
    stage="cross_encoder",
    path="bm25",
    corpus="abc",
    when="max",
    below=0.8,
    predictor=None,
    learnt=("k1",),
)


def test_calibration_reads_back(tmp_path: Path) -> None:
    write_calibration(tmp_path, DATA)
    made = find_calibration(tmp_path, "quick")
    assert (made.when, made.below, made.training_questions) == ("max", 0.8, frozenset({"k1"}))
    assert made.refused("cross_encoder", "bm25", "abc") == ""
    assert made.refused("hosted", "bm25", "abc") == "it was calibrated for cross_encoder"
    assert made.refused("cross_encoder", "dense", "abc") == "it was calibrated after bm25"
    assert made.refused("cross_encoder", "bm25", "abd") == "the documents changed since"


def test_new_calibration_of_the_same_name_is_read(tmp_path: Path) -> None:
    write_calibration(tmp_path, DATA)
    first = find_calibration(tmp_path, "quick")
    write_calibration(tmp_path, replace(DATA, below=0.123456))
    second = find_calibration(tmp_path, "quick")
    assert (second.below, second.stamp != first.stamp) == (0.123456, True)


def test_unknown_calibration_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="Make one with: surefind calibrate"):
        find_calibration(tmp_path, "quick")
    write_calibration(tmp_path, DATA)
    with pytest.raises(SpecError, match="quick"):
        find_calibration(tmp_path, "quikc")


@each(
    "damage",
    [
        lambda text: text.replace('"below": 0.8', '"below": 0.1'),
        lambda text: text[:40],
        lambda text: text.replace('"when": "max"', '"when": "luck"'),
    ],
)
def test_damaged_calibration_is_refused(tmp_path: Path, damage: Any) -> None:
    path = write_calibration(tmp_path, DATA)
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    assert path.name == FILE
    with pytest.raises(StoreError, match="Make it again"):
        find_calibration(tmp_path, "quick")
