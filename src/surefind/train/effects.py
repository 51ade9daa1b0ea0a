"""How much each feature moves the predictions of a model, and in which direction, by SHAP values.

A SHAP value is the part of one prediction that one feature explains; the parts add up to the prediction minus the mean
one (Lundberg and Lee 2017). For boosted trees, xgboost computes them exactly. For a linear model they are

    φ_i(x) = w_i · (x_i - mean(x_i))
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefind.types import Floats


def effects(names: Sequence[str], features: Floats, contributions: Floats) -> dict[str, dict[str, float]]:
    """For each feature, by its mean |SHAP|, greatest first: that mean, the least and the greatest SHAP value, and the
    direction: the correlation of the feature with its SHAP values."""
    found = {
        name: {
            "mean": float(np.abs(own).mean()),
            "low": float(own.min()),
            "high": float(own.max()),
            "direction": _correlation(values, own),
        }
        for name, values, own in zip(names, features.T, contributions.T, strict=True)
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]["mean"]))


def linear(coefficients: Floats, features: Floats) -> Floats:
    """The SHAP values of a linear model."""
    return np.asarray((features - features.mean(axis=0)) * coefficients)


def _correlation(a: Floats, b: Floats) -> float:
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 1e-12 else 0.0
