"""Models that predict α*: ridge on 4 features, XGBoost on 25, an MLP on the query's vector.

Hyperparameters are chosen on the validation part of a 70/15/15 split (stratified by family, seed 42), as in the
agentic-knowledge-base study (4.2): of the tuning half, or of all questions with `split=70/15/15`. The grids are the
study's, with two changes. XGBoost's 54 settings need 18 fits, because 50 and 100 trees are the first of 200. The MLP is
scikit-learn's, which has no dropout and a linear output (clipped), so only the study's 6 combinations of layer widths
and learning rates are tried.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from surefind.fusion.features import SCORE_NAMES, WORD_NAMES, of_scores, of_words
from surefind.fusion.predictors import MLP, Predictor, Ridge, XGBoost
from surefind.fusion.trees import Trees
from surefind.protocols import OnProgress
from surefind.train.material import Half, Material, parts, sklearn, xgboost
from surefind.types import Floats

LAMBDAS = (0.01, 0.1, 1.0, 10.0, 100.0)
TREES = (50, 100, 200)
DEPTHS = (3, 5, 7)
RATES = (0.01, 0.1, 0.3)
SUBSAMPLES = (0.8, 1.0)
LAYERS = ((32, 16), (64, 32), (128, 64))
MLP_RATES = (0.001, 0.0001)
SEED = 42


@dataclass(frozen=True)
class Fitted:
    predictor: Predictor
    chosen: dict[str, Any]
    """The hyperparameters that were chosen."""
    metrics: dict[str, Any]


@dataclass(frozen=True)
class _Parts:
    train: tuple[Floats, Floats]
    validation: tuple[Floats, Floats]
    test: tuple[Floats, Floats]

    @classmethod
    def of(cls, material: Material, features: Callable[[Half], Floats]) -> _Parts:
        tuning, held = material.tuning, material.held
        found = features(tuning)
        if material.validation is None:
            rows = parts([query.family for query in tuning.queries], SEED)
            train, validation, test = ((found[i], tuning.alphas[i]) for i in rows)
            return cls(train, validation, test)
        chosen = np.isin(np.arange(len(found)), material.validation)
        train, validation = ((found[i], tuning.alphas[i]) for i in (~chosen, chosen))
        return cls(train, validation, (features(held), held.alphas))

    def metrics(self, predict: Callable[[Floats], Floats]) -> dict[str, float]:
        return {
            f"r2_{name}": r_squared(y, np.clip(predict(x), 0, 1))
            for name, (x, y) in (("train", self.train), ("validation", self.validation), ("test", self.test))
        }


def r_squared(truth: Floats, predicted: Floats) -> float:
    spread = float(((truth - truth.mean()) ** 2).sum()) if len(truth) else 0.0
    return 1 - float(((truth - predicted) ** 2).sum()) / spread if spread > 0 else 0.0


def fit_ridge(material: Material, report: OnProgress) -> Fitted:
    data = _Parts.of(material, lambda half: of_words(half.texts))
    linear = sklearn("linear_model")
    tried = []
    for i, strength in enumerate(LAMBDAS):
        report("Fitting ridge", i, len(LAMBDAS))
        model = linear.Ridge(alpha=strength).fit(*data.train)
        tried.append((_r2(data, model.predict), -i, strength, model))
    _, _, strength, best = max(tried, key=lambda row: row[:2])
    metrics: dict[str, Any] = data.metrics(best.predict)
    metrics["coefficients"] = dict(zip(WORD_NAMES, best.coef_.tolist(), strict=True))
    return Fitted(Ridge(best.coef_, float(best.intercept_)), {"lambda": strength}, metrics)


def fit_xgboost(material: Material, report: OnProgress) -> Fitted:
    module = xgboost()
    data = _Parts.of(material, lambda half: of_scores(half.texts, half.rankings))
    train = module.DMatrix(*data.train, feature_names=list(SCORE_NAMES))
    best: tuple[float, dict[str, Any], Any] = (-np.inf, {}, None)
    grid = list(product(DEPTHS, RATES, SUBSAMPLES))
    for i, (depth, rate, subsample) in enumerate(grid):
        report("Fitting xgboost", i, len(grid))
        settings = {"max_depth": depth, "learning_rate": rate, "subsample": subsample}
        fixed = {"objective": "reg:squarederror", "tree_method": "hist", "seed": SEED, "nthread": 1}
        booster = module.train({**settings, **fixed}, train, num_boost_round=max(TREES))
        for trees in TREES:
            cut = booster[:trees]
            score = _r2(data, cut.inplace_predict)
            if score > best[0]:
                best = score, {"n_estimators": trees, **settings}, cut
    _, chosen, booster = best
    booster.feature_names = None  # so that it accepts plain arrays
    metrics: dict[str, Any] = data.metrics(booster.inplace_predict)
    metrics["shap"] = shap(booster, of_scores(material.held.texts, material.held.rankings), SCORE_NAMES)
    return Fitted(XGBoost(Trees.of(booster)), chosen, metrics)


def shap(booster: Any, features: Floats, names: tuple[str, ...]) -> dict[str, float]:
    """Mean |SHAP| of each feature, greatest first (TreeSHAP, Lundberg and Lee 2018)."""
    contributions = booster.predict(xgboost().DMatrix(features), pred_contribs=True)[:, :-1]
    means = np.abs(contributions).mean(axis=0).tolist()
    return dict(sorted(zip(names, means, strict=True), key=lambda item: -item[1]))


def fit_mlp(material: Material, report: OnProgress) -> Fitted:
    network = sklearn("neural_network")
    # Single precision halves the time; the vectors have no more precision.
    data = _Parts.of(material, lambda half: np.asarray(material.embed(half.texts), dtype=np.float32))
    grid = list(product(LAYERS, MLP_RATES))
    tried = []
    for i, (layers, rate) in enumerate(grid):
        report("Fitting mlp", i, len(grid))
        model = network.MLPRegressor(
            hidden_layer_sizes=layers, alpha=0.01, batch_size=min(128, len(data.train[0])), learning_rate_init=rate,
            max_iter=100, early_stopping=True, n_iter_no_change=10, random_state=SEED,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # 100 epochs are the study's limit, converged or not
            model.fit(*data.train)
        tried.append((_r2(data, model.predict), -i, {"hidden_dims": list(layers), "learning_rate": rate}, model))
    _, _, chosen, best = max(tried, key=lambda row: row[:2])
    predictor = MLP(tuple(zip(best.coefs_, best.intercepts_, strict=True)))
    return Fitted(predictor, chosen, dict(data.metrics(best.predict)))


def _r2(data: _Parts, predict: Callable[[Floats], Floats]) -> float:
    x, y = data.validation
    return r_squared(y, np.clip(predict(x), 0, 1))
