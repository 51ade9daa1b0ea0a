"""How well probabilities hold: reliability bins, expected calibration error, Brier score, AUC.

    ECE    Σ_b n_b / n · |mean p of bin b - share of successes in bin b|     bins of equal numbers of questions
    Brier  mean of (p - success)²
    AUC    the probability that a success has a higher p than a failure; ties count half

Naeini et al., Obtaining Well Calibrated Probabilities Using Bayesian Binning, 2015, with bins of equal mass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefind.base.types import BoolArray, Floats

BINS = 10
_DRAWS = 200


@dataclass(frozen=True, slots=True)
class Bin:
    """Questions with similar probabilities."""

    predicted: float
    """Their mean probability."""
    observed: float
    """The share of them that succeeded."""
    count: int


def reliability(p: Floats, success: BoolArray, bins: int = BINS) -> list[Bin]:
    """Divides the questions by their probability into bins of equal numbers."""
    order = np.argsort(p, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    return [Bin(float(p[part].mean()), float(success[part].mean()), len(part)) for part in parts]


def calibration_error(p: Floats, success: BoolArray, bins: int = BINS) -> float:
    """The expected calibration error."""
    reliability_bins = reliability(p, success, bins)
    return sum(b.count * abs(b.predicted - b.observed) for b in reliability_bins) / max(1, len(p))


def error_by_chance(p: Floats, bins: int = BINS, seed: int = 42) -> float:
    """The calibration error that these probabilities would show on average if all of them were right. It is above 0,
    because the share of successes in a bin is subject to chance."""
    rng = np.random.default_rng(seed)
    return float(np.mean([calibration_error(p, rng.random(len(p)) < p, bins) for _ in range(_DRAWS)]))


def brier(p: Floats, success: BoolArray) -> float:
    """The Brier score: 0 is best, and a constant 0.5 scores 0.25."""
    return float(np.mean((p - success) ** 2))


def auc(p: Floats, success: BoolArray) -> float | None:
    """The area under the ROC curve (Mann and Whitney 1947); None if all succeed or none does."""
    yes, no = int(success.sum()), int((~success).sum())
    if not yes or not no:
        return None
    _, places, counts = np.unique(p, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return float((ranks[success].sum() - yes * (yes + 1) / 2) / (yes * no))
