"""Chooses a threshold on one part of the questions and checks it on the other.

The predictor is fitted on the tuning part alone. Its threshold is chosen by predictions for questions that were not in
the fit (`cross_fitted`), because predictions for the questions of the fit are too sure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefind.base.types import BoolArray, Floats
from surefind.engine.confidence.measures import When
from surefind.engine.confidence.predictor import LogisticModel, cross_fitted, fit
from surefind.lab.calibrate.report import RerankQuality, SkipResult
from surefind.lab.measure.statistics import wilson
from surefind.lab.measure.thresholds import Rule, Threshold, chosen, first_failure, smallest, thresholds, z_of

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known about each question of an exam."""

    confidences: Mapping[When, Floats]
    """By every measure but `predicted`."""
    features: Floats
    success: BoolArray
    """Whether the ranking before the reranker succeeds."""
    before: Floats
    """The quality of the ranking before the reranker."""
    after: Floats
    """The quality of the reranked ranking."""
    groups: NDArray[np.int64]
    """Questions about the same document have the same number."""


@dataclass(frozen=True, eq=False)
class Cutoff:
    """A threshold, the measure that it is for, and how it was chosen."""

    when: When
    threshold: Threshold | None
    tested: tuple[Threshold, ...]
    predictor: LogisticModel | None = None
    smallest: Threshold | None = None
    """The threshold of eq. 32."""
    failed: Threshold | None = None
    """The threshold that ended the sequence."""

    @property
    def below(self) -> float:
        """τ; infinite if every question is to be reranked."""
        return np.inf if self.threshold is None else self.threshold.below

    def confidences(self, evidence: Evidence) -> Floats:
        if self.predictor is None:
            return evidence.confidences[self.when]
        return _where_sure(evidence, self.predictor(evidence.features))


def choose(
    evidence: Evidence,
    tuning: Rows,
    when: When,
    beta: float,
    level: float,
    most: float = 1.0,
    rule: Rule = "sequence",
) -> Cutoff:
    """The choice by the tuning questions; at most the share `most` of them is skipped."""
    success = evidence.success[tuning]
    predictor = None
    if when == "predicted":
        features = evidence.features[tuning]
        predictor = fit(features, success)
        sure = _where_sure(evidence, np.zeros(len(evidence.success)))[tuning]
        confidences = np.where(np.isinf(sure), sure, cross_fitted(features, success, evidence.groups[tuning]))
    else:
        confidences = evidence.confidences[when][tuning]
    tested = thresholds(confidences, success, level)
    by_sequence, by_size = chosen(tested, beta, level, most), smallest(confidences, success, beta, level, most)
    taken = by_size if rule == "eq32" else by_sequence
    return Cutoff(when, taken, tuple(tested), predictor, by_size, first_failure(tested, beta, level, most))


def _where_sure(evidence: Evidence, predicted: Floats) -> Floats:
    """The predictions; infinite where there is nothing to reorder."""
    return np.where(np.isinf(evidence.confidences["max"]), np.inf, predicted)


def checked(evidence: Evidence, rows: Rows, choice: Cutoff, level: float) -> SkipResult:
    """What the choice does on other questions: how many are skipped, how many of these succeed, and the quality."""
    skipped = choice.confidences(evidence)[rows] >= choice.below
    before, after, success = evidence.before[rows], evidence.after[rows], evidence.success[rows]
    n, k = int(skipped.sum()), int(success[skipped].sum())
    interval = wilson(k, n, z_of(level))
    never, always = float(before.mean()), float(after.mean())
    made = float(np.where(skipped, before, after).mean())
    return SkipResult(
        questions=len(rows),
        skipped=n,
        skip_rate=n / max(1, len(rows)),
        successes=k,
        success=k / n if n else None,
        low=interval.low,
        high=interval.high,
        quality=RerankQuality(never, always, made),
        gain_kept=(made - never) / (always - never) if always > never else None,
    )
