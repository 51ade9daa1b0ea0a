"""Predicts the probability that a ranking succeeds, by logistic regression on the features of `confidence.measures`.

    p(q) = σ(w · z(q) + b)        z: the features, scaled to mean 0 and standard deviation 1 on the questions of the fit

The weights minimise the log loss + λ/2 · |w|², by Newton's method (iteratively reweighted least squares). b is not
penalised, so the mean of p equals the share of successes.

A fit can start from an earlier predictor, w0 and b0, which then decides as far as the questions do not: the log loss
+ λ0/2 · |w - w0|² + μ0/2 · (b - b0)², in the scale of the earlier one. Few questions move b, many also w.

A calibrated threshold on disk: `.surefind/models/NAME/calibration.json`, written by `surefind calibrate`.

It holds for the documents, the stages before the reranker and the reranker that it was calibrated with, and for no
others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surefind.base.disk.sealed import digest, from_json, read_sealed, to_json, write_sealed
from surefind.base.errors import StoreError
from surefind.base.types import BoolArray, Floats
from surefind.engine.confidence.signals import When
from surefind.engine.store.database import FileVersion, find_named

STRENGTH = 5.0
"""λ. A few hundred questions cannot tell the weights of ten features apart without it."""
KEEP, KEEP_MEAN = 10.0, 6.0
"""λ0 and μ0: how many questions' worth an earlier predictor is (docs/results/confidence.md)."""
FOLDS = 10
_STEPS = 50
_CONVERGED = 1e-8


@dataclass(frozen=True)
class SavedModel:
    """The numbers of a `LogisticModel`, for a file."""

    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float


@dataclass(frozen=True, eq=False)
class LogisticModel:
    means: Floats
    scales: Floats
    weights: Floats
    intercept: float

    def __call__(self, features: Floats) -> Floats:
        return _sigmoid((features - self.means) / self.scales @ self.weights + self.intercept)

    @property
    def saved(self) -> SavedModel:
        """The model as it is saved."""
        means, scales, weights = (tuple(array.tolist()) for array in (self.means, self.scales, self.weights))
        return SavedModel(means, scales, weights, self.intercept)

    @classmethod
    def of(cls, saved: SavedModel) -> LogisticModel:
        """Returns a model that was saved. Raises `ValueError` if it is not sound."""
        means, scales, weights = (np.array(values, np.float64) for values in (saved.means, saved.scales, saved.weights))
        if not len(means) == len(scales) == len(weights) or not (scales > 0).all():
            raise ValueError("its predictor is not sound")
        return cls(means, scales, weights, float(saved.intercept))


def fit(
    features: Floats,
    success: BoolArray,
    strength: float = STRENGTH,
    earlier: LogisticModel | None = None,
    counts: Floats | None = None,
) -> LogisticModel:
    """`counts` says how many times each question counts; once if it is not given."""
    counts = np.ones(len(features)) if counts is None else counts
    if earlier is None:
        means = np.average(features, axis=0, weights=counts)
        spread = np.sqrt(np.average((features - means) ** 2, axis=0, weights=counts))
        scales = np.where(spread > 1e-12, spread, 1.0)
        start = np.zeros(features.shape[1] + 1)
        penalty = np.append(np.full(features.shape[1], strength), 1e-6)  # a little for b: all questions may succeed
    else:
        means, scales = earlier.means, earlier.scales
        start = np.append(earlier.weights, earlier.intercept)
        penalty = np.append(np.full(features.shape[1], KEEP), KEEP_MEAN)
    z = np.column_stack([(features - means) / scales, np.ones(len(features))])
    at = start
    for _ in range(_STEPS):
        p = _sigmoid(z @ at)
        slope = z.T @ (counts * (p - success)) + penalty * (at - start)
        curve = (z * (counts * p * (1 - p))[:, None]).T @ z + np.diag(penalty)
        step = np.linalg.solve(curve, slope)
        at = at - step / max(1.0, float(np.abs(step).max()))  # short steps while far away
        if np.abs(step).max() < _CONVERGED:
            break
    return LogisticModel(means, scales, at[:-1], float(at[-1]))


def cross_fitted(
    features: Floats,
    success: BoolArray,
    groups: NDArray[np.int64],
    seed: int = 42,
    earlier: LogisticModel | None = None,
) -> Floats:
    """The prediction for each question by a model that was fitted without its fold. Questions of one group are in the
    same fold."""
    names = np.unique(groups)
    folds = np.random.default_rng(seed).permutation(len(names)) % min(FOLDS, len(names))
    own = folds[np.searchsorted(names, groups)]
    predicted = np.zeros(len(features))
    for fold in np.unique(own):
        out = own == fold
        made = fit(features[~out], success[~out], earlier=earlier) if (~out).any() else earlier
        predicted[out] = made(features[out]) if made else success.mean()
    return predicted


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -30, 30))))


FILE = "calibration.json"
FORMAT = 1


@dataclass(frozen=True, eq=False)
class Calibration:
    name: str
    stage: str
    """The reranker."""
    path: str
    """The stages before it, in the text form of a pipeline."""
    corpus: str
    """The fingerprint of the documents."""
    when: When
    below: float | None
    """τ: queries with less confidence are reranked. None if no threshold keeps the promise: all are reranked."""
    predictor: LogisticModel | None
    training_questions: frozenset[str]
    """The questions that chose the threshold, as `question_key` writes them."""
    stamp: str
    """A hash of the file's content."""

    def refused(self, stage: str, path: str, corpus: str) -> str:
        """Why the threshold does not hold here; "" if it does."""
        if stage != self.stage:
            return f"it was calibrated for {self.stage}"
        if path != self.path:
            return f"it was calibrated after {self.path}"
        return "the documents changed since" if corpus != self.corpus else ""


@dataclass(frozen=True, kw_only=True)
class SavedThreshold:
    """A calibration as it is saved. The report of `surefind calibrate` adds its figures."""

    format: int = FORMAT
    name: str
    stage: str
    path: str
    corpus: str
    when: When
    below: float | None
    predictor: SavedModel | None
    learnt: tuple[str, ...]

    def __post_init__(self) -> None:
        if (self.when == "predicted") != (self.predictor is not None):
            raise ValueError("its measure of confidence is not known")


def write_calibration(folder: Path, saved: SavedThreshold) -> Path:
    """Saves a calibration under its name."""
    place = folder / saved.name / FILE
    place.parent.mkdir(parents=True, exist_ok=True)
    write_sealed(place, to_json(saved))
    return place


def find_calibration(folder: Path | None, name: str) -> Calibration:
    """Reads a calibration by its name."""
    advice = "Make one with: surefind calibrate cross_encoder --exam NAME."
    return _read(*find_named(folder, name, FILE, "calibration called", advice))


@lru_cache(maxsize=8)
def _read(path: Path, version: FileVersion) -> Calibration:
    """`version` is part of the cache key, so that a new calibration of the same name is read."""
    try:
        data = read_sealed(path, FORMAT)
        saved = from_json(SavedThreshold, data)
        return Calibration(
            saved.name,
            saved.stage,
            saved.path,
            saved.corpus,
            saved.when,
            saved.below,
            None if saved.predictor is None else LogisticModel.of(saved.predictor),
            frozenset(saved.learnt),
            digest(data),
        )
    except ValueError as error:
        raise StoreError(
            f"The calibration in {path.parent} cannot be used ({error}). Make it again with: surefind calibrate."
        ) from error
