"""`ndcg`: chooses weights that maximise the measure itself, instead of predicting α*.

Boosted trees predict, from the `rich` features, how much each candidate weighting gains over the best static one. The
candidates are α in steps of 0.1, or points of a coarse simplex for more than two rankings. A penalty on the distance
from static and a threshold on the predicted gain are chosen on out-of-fold predictions over the whole tuning half. They
are used only if they gain more than the standard error there; otherwise the model is the static weighting.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.base.access import Access
from surefind.base.protocols import OnProgress
from surefind.base.types import Floats
from surefind.engine.fuse.support.features import Rarity, rich, rich_names
from surefind.engine.fuse.support.predictors import Chooser, choose, with_candidates
from surefind.engine.fuse.support.trees import Trees
from surefind.lab.train.alpha import SEED, Fitted, shap
from surefind.lab.train.material import NORMS, Material, simplex, xgboost

FOLDS = 4
ROUNDS = 150
SETTINGS = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_depth": 4,
    "learning_rate": 0.05,
    "subsample": 0.7,
    "colsample_bytree": 0.5,
    "min_child_weight": 20,
    "reg_lambda": 5.0,
    "max_bin": 64,
    "seed": SEED,
    "nthread": 1,
}
PENALTIES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
THRESHOLDS = (0.0, 0.005, 0.01, 0.02, 0.05)
_PASSAGES = 20_000
"""Passages sampled to estimate how rare words are."""


def fit_ndcg(material: Material, report: OnProgress) -> Fitted:
    half = material.tuning
    candidates = simplex(len(half.rankings))
    tables = {norm: half.sweep(candidates, norm) for norm in NORMS}
    norm = max(NORMS, key=lambda norm: float(tables[norm].mean(axis=0).max()))
    table = tables[norm]
    static = int(table.mean(axis=0).argmax())
    gains = table - table[:, static : static + 1]
    rarity = rarity_of(material)
    features = rich(half.texts, half.rankings, rarity)

    promised = np.zeros_like(gains)
    folds = spread_folds([query.family for query in half.queries], FOLDS)
    for fold in range(FOLDS):
        report("Fitting ndcg", fold, FOLDS + 1)
        booster = _fit(features[folds != fold], gains[folds != fold], candidates)
        promised[folds == fold] = _predict(booster, features[folds == fold], candidates)
    penalty, threshold, expected = shrink(promised, gains, candidates, static)
    report("Fitting ndcg", FOLDS, FOLDS + 1)
    booster = _fit(features, gains, candidates)
    report("Fitting ndcg", FOLDS + 1, FOLDS + 1)

    names = (*rich_names([ranking.source for ranking in half.rankings]), *_weight_names(material))
    metrics: dict[str, Any] = {
        "expected_gain": expected,
        "shap": shap(booster, with_candidates(features[:500], candidates), names),
    }
    chosen = {"penalty": penalty, "threshold": threshold if np.isfinite(threshold) else None, "norm": norm}
    return Fitted(Chooser(norm, candidates, static, penalty, threshold, rarity, Trees.of(booster)), chosen, metrics)


def shrink(promised: Floats, gains: Floats, candidates: Floats, static: int) -> tuple[float, float, float]:
    """The best penalty and threshold, and their mean gain on questions that the trees have not seen."""
    rows = np.arange(len(gains))
    best = (0.0, float("inf"), 0.0)
    # The most cautious values come first, so they win a tie.
    for penalty, threshold in product(reversed(PENALTIES), reversed(THRESHOLDS)):
        won = gains[rows, choose(promised, candidates, static, penalty, threshold)]
        error = float(won.std()) / len(won) ** 0.5
        if won.mean() > max(best[2], error):
            best = penalty, threshold, float(won.mean())
    return best


def rarity_of(material: Material) -> Rarity:
    """The rarity of words, from about 20,000 evenly spaced passages, which are enough."""
    ids = material.view.spans().ids[:: max(1, len(material.view) // _PASSAGES)].tolist()
    return Rarity.of([chunk.text for chunk in material.view.chunks(ids, Access.owner())])


def _fit(features: Floats, gains: Floats, candidates: Floats) -> Any:
    module = xgboost()
    data = module.DMatrix(with_candidates(features, candidates), gains.ravel())
    return module.train(SETTINGS, data, num_boost_round=ROUNDS)


def _predict(booster: Any, features: Floats, candidates: Floats) -> Floats:
    rows = booster.inplace_predict(with_candidates(features, candidates))
    return np.asarray(rows, dtype=np.float64).reshape(len(features), len(candidates))


def spread_folds(families: list[str], count: int) -> NDArray[np.int64]:
    """Assigns each question to a fold, so that every family is spread over all folds."""
    rng = np.random.default_rng(SEED)
    folds = np.zeros(len(families), np.int64)
    for family in sorted(set(families)):
        rows = np.array([i for i, f in enumerate(families) if f == family])
        folds[rng.permutation(rows)] = np.arange(len(rows)) % count
    return folds


def _weight_names(material: Material) -> list[str]:
    return [f"weight_{ranking.source}" for ranking in material.tuning.rankings[:-1]]
