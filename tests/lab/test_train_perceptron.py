"""The MLP of the agentic-knowledge-base study, and how much each feature of a model moves its predictions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from surefind.lab.train import alpha
from surefind.lab.train.alpha import Setting, effects, fit, forward, linear

RNG = np.random.default_rng(1)
X = RNG.normal(size=(400, 8))
Y = 1 / (1 + np.exp(-2 * X[:, 0] + X[:, 1]))
TRAIN, VALIDATION = (X[:300], Y[:300]), (X[300:], Y[300:])
SETTING = Setting((16, 8), 0.01, 32, 0.0, 0.001)


def test_it_learns_a_curve() -> None:
    model = fit(TRAIN, VALIDATION, SETTING, 42)
    spread = float(VALIDATION[1].var())
    assert ((model.predict(X[300:]) - Y[300:]) ** 2).mean() < 0.05 * spread
    assert model.predict(X * 100).min() >= 0 and model.predict(X * 100).max() <= 1


def test_the_best_epoch_is_kept_and_training_ends_after_ten_more() -> None:
    noise = RNG.uniform(size=300)
    model = fit((X[:300], noise), VALIDATION, SETTING, 42)
    losses = [loss for _, loss in model.losses]
    assert len(losses) == int(np.argmin(losses)) + 1 + alpha.PATIENCE < alpha.EPOCHS
    assert ((model.predict(X[300:]) - Y[300:]) ** 2).mean() == pytest.approx(min(losses))


def test_one_step_follows_the_gradient_and_adamw() -> None:
    """The first step of AdamW moves each weight by the rate against the sign of its gradient, after the decay."""
    setting = Setting((3, 2), 0.01, 1000, 0.0, 0.1)
    one = alpha.EPOCHS
    try:
        alpha.EPOCHS = 1
        model = fit(TRAIN, VALIDATION, setting, 7)
    finally:
        alpha.EPOCHS = one
    values, layers = alpha._start((8, 3, 2, 1), np.random.default_rng(7))

    def loss() -> float:
        return float(((forward(layers, TRAIN[0]) - TRAIN[1]) ** 2).mean())

    slopes = []
    for i in range(len(values)):
        kept = values[i]
        values[i] = kept + 1e-3
        above = loss()
        values[i] = kept - 1e-3
        slopes.append((above - loss()) / 2e-3)
        values[i] = kept
    moved = np.concatenate([part.ravel() for layer in model.layers for part in layer])
    clear = np.abs(slopes) > 1e-4
    expected = values * (1 - 0.01 * 0.1) - 0.01 * np.sign(slopes)
    assert clear.sum() > 10 and moved[clear] == pytest.approx(expected[clear], abs=1e-4)


def test_dropout_weakens_training_and_not_predictions() -> None:
    with_it = fit(TRAIN, VALIDATION, Setting((16, 8), 0.01, 32, 0.8, 0.001), 42)
    without = fit(TRAIN, VALIDATION, SETTING, 42)
    assert with_it.losses[5][0] > without.losses[5][0]
    assert np.array_equal(with_it.predict(X), with_it.predict(X))


def test_the_grids_are_those_of_the_study() -> None:
    """It counts 54 settings of XGBoost, and 90 of the MLP, though its lists have 108."""
    assert math.prod(map(len, (alpha.TREES, alpha.DEPTHS, alpha.RATES, alpha.SUBSAMPLES))) == 54
    assert math.prod(map(len, (alpha.LAYERS, alpha.MLP_RATES, alpha.BATCHES, alpha.DROPOUTS, alpha.DECAYS))) == 108


def test_equal_seeds_make_equal_models() -> None:
    first, second = (fit(TRAIN, VALIDATION, SETTING, 3).predict(X) for _ in range(2))
    assert np.array_equal(first, second)


def test_linear_shap_values_add_up_and_have_a_direction() -> None:
    coefficients = np.array([0.5, -2.0, 0.0])
    features = RNG.normal(size=(50, 3))
    contributions = linear(coefficients, features)
    predicted = features @ coefficients
    assert contributions.sum(axis=1) == pytest.approx(predicted - predicted.mean())
    found = effects(["a", "b", "c"], features, contributions)
    assert list(found) == ["b", "a", "c"]
    assert [round(found[name]["direction"], 6) for name in "abc"] == [1.0, -1.0, 0.0]
    assert found["b"]["low"] == pytest.approx(contributions[:, 1].min())
