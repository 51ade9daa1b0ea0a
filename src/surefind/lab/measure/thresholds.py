"""Chooses the confidence from which on a step may be skipped, so that the skipped questions still succeed.

For a threshold τ, n(τ) questions have at least this confidence, and k(τ) of them succeed without the step:

    low(τ) = lower end of Wilson's interval of k(τ) / n(τ)        τ* = min { τ : low(τ) ≥ β and n(τ) ≥ 30 }

(eqs. 30 to 32 of the agentic-knowledge-base study). Taking the smallest τ after looking at all of them weakens the
interval: with many τ, one passes by luck. So they are tested in a fixed sequence, from the largest τ down, and the
first one that fails ends it. Then the probability that any accepted τ breaks the promise is at most that of one test
(Bauer 1991; Maurer, Hothorn and Lehmacher 1995). The sequence depends on the confidences alone, not on the successes.
It has at most `STEPS` steps of equal numbers of questions. It begins with the first step that could pass and skips
30% of the questions: a sequence that begins with few questions often ends at once, by one failure among them.

How well probabilities hold: reliability bins, expected calibration error, Brier score, AUC.

    ECE    Σ_b n_b / n · |mean p of bin b - share of successes in bin b|     bins of equal numbers of questions
    Brier  mean of (p - success)²
    AUC    the probability that a success has a higher p than a failure; ties count half

Naeini et al., Obtaining Well Calibrated Probabilities Using Bayesian Binning, 2015, with bins of equal mass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from surefind.base.types import BoolArray, Floats
from surefind.lab.measure.statistics import wilson

Rule = Literal["sequence", "eq32"]
"""How a threshold is chosen: by fixed-sequence testing, or as the smallest that passes (eq. 32)."""
RULES: tuple[Rule, ...] = ("sequence", "eq32")
MIN_QUESTIONS = 30
"""Fewest questions above a threshold."""
STEPS = 20
FIRST_SKIPPED_SHARE = 0.3
"""The share of questions that the first tested threshold skips, at least."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """What happens if questions with a confidence of at least `below` skip the step."""

    below: float
    skipped: int
    successes: int
    low: float
    """The lower end of the interval of successes / skipped."""

    def keeps(self, beta: float) -> bool:
        return self.skipped >= MIN_QUESTIONS and self.low >= beta


def z_of(confidence: float) -> float:
    """The z of a two-sided interval: 1.96 for 0.95."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def thresholds(confidences: Floats, success: BoolArray, level: float = 0.95, steps: int = STEPS) -> list[Threshold]:
    """The thresholds to test, the largest first; each skips at least `MIN_QUESTIONS` questions."""
    ordered = np.sort(confidences)[::-1]
    counts = np.unique(np.linspace(0, len(ordered), steps + 1).round().astype(int)[1:])
    values = dict.fromkeys(float(ordered[count - 1]) for count in counts if count >= MIN_QUESTIONS)
    return [_threshold(confidences, success, value, level) for value in values]


def _threshold(confidences: Floats, success: BoolArray, below: float, level: float) -> Threshold:
    skipped = confidences >= below
    n, k = int(skipped.sum()), int(success[skipped].sum())
    return Threshold(below, n, k, wilson(k, n, z_of(level)).low)


def chosen(tested: Sequence[Threshold], beta: float, level: float = 0.95, most: float = 1.0) -> Threshold | None:
    """The smallest threshold that keeps the promise and skips at most the share `most`, by fixed-sequence testing; None
    if the first one fails."""
    best = None
    for threshold in _sequence(tested, beta, level, most):
        if not threshold.keeps(beta):
            break
        best = threshold
    return best


def first_failure(tested: Sequence[Threshold], beta: float, level: float = 0.95, most: float = 1.0) -> Threshold | None:
    """The threshold that ends the fixed sequence; None if all pass, or none is tested."""
    return next((threshold for threshold in _sequence(tested, beta, level, most) if not threshold.keeps(beta)), None)


def _sequence(tested: Sequence[Threshold], beta: float, level: float, most: float) -> Iterator[Threshold]:
    """The thresholds that are tested, in order."""
    questions = max((threshold.skipped for threshold in tested), default=0)
    for threshold in tested:
        n = threshold.skipped
        if n > most * questions:
            return
        if n < min(FIRST_SKIPPED_SHARE, most / 2) * questions or wilson(n, n, z_of(level)).low < beta:
            continue  # too few questions: the second test fails even if all of them succeed
        yield threshold


def smallest(
    confidences: Floats, success: BoolArray, beta: float, level: float = 0.95, most: float = 1.0
) -> Threshold | None:
    """τ* of eq. 32: the smallest threshold of all that passes and skips at most the share `most`; None if none does. It
    is the luckiest of as many thresholds as there are confidences, so its promise is weaker than its interval says."""
    values = np.unique(confidences)
    counts = len(confidences) - np.searchsorted(np.sort(confidences), values)
    enough = values[(counts >= MIN_QUESTIONS) & (counts <= most * len(confidences))]
    found = (_threshold(confidences, success, float(value), level) for value in enough)
    return next((threshold for threshold in found if threshold.keeps(beta)), None)


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
