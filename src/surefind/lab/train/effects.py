"""How much each feature moves the predictions of a model, and in which direction, by SHAP values.

A SHAP value is the part of one prediction that one feature explains; the parts add up to the prediction minus the mean
one (Lundberg and Lee 2017). For boosted trees, xgboost computes them exactly. For a linear model they are

    φ_i(x) = w_i · (x_i - mean(x_i))
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefind.base.types import Floats

_MOST_POINTS = 300
"""Questions of a cloud, at most."""


def effects(names: Sequence[str], features: Floats, contributions: Floats) -> dict[str, dict[str, float]]:
    """For each feature, by its mean |SHAP|, greatest first: that mean, the least and the greatest SHAP value, and the
    direction: the correlation of the feature with its SHAP values."""
    by_feature = {
        name: {
            "mean": float(np.abs(own).mean()),
            "low": float(own.min()),
            "high": float(own.max()),
            "direction": _correlation(values, own),
        }
        for name, values, own in zip(names, features.T, contributions.T, strict=True)
    }
    return dict(sorted(by_feature.items(), key=lambda item: -item[1]["mean"]))


def points(names: Sequence[str], features: Floats, contributions: Floats) -> dict[str, list[list[float]]]:
    """For each feature, the SHAP value of each question, and the feature's value there, from 0 (its least) to 1. Many
    questions are thinned, the same way each time."""
    drawn = np.sort(np.random.default_rng(0).permutation(len(features))[:_MOST_POINTS])
    low, high = features.min(axis=0), features.max(axis=0)
    scaled = (features - low) / np.where(high > low, high - low, 1.0)
    pairs = np.stack([contributions, scaled], axis=2)[drawn].round(4)
    return {name: pairs[:, i].tolist() for i, name in enumerate(names)}


def linear(coefficients: Floats, features: Floats) -> Floats:
    """The SHAP values of a linear model."""
    return np.asarray((features - features.mean(axis=0)) * coefficients)


def _correlation(a: Floats, b: Floats) -> float:
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 1e-12 else 0.0
