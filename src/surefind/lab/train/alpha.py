"""Models that predict α*: ridge on 4 features, XGBoost on 25, an MLP on the query's vector.

The grids are those of the agentic-knowledge-base study (4.2). With `split=70/15/15`, ridge and XGBoost are chosen by
5-fold cross-validation on the 70%, and the MLP by the validation part, as in the study. With halves, all three are
chosen by the validation part of a 70/15/15 split of the tuning half. XGBoost's 54 settings need 18 fits, because 50 and
100 trees are the first of 200. The study counts 90 settings of the MLP, but its lists give 108; all of them are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.base.errors import ExamError
from surefind.base.protocols import OnProgress
from surefind.base.types import Floats
from surefind.engine.fuse.support.features import SCORE_NAMES, WORD_NAMES, of_scores, of_words
from surefind.engine.fuse.support.predictors import MLP, Ridge, Weigher, XGBoost
from surefind.engine.fuse.support.trees import Trees
from surefind.lab.train.effects import effects, linear, points
from surefind.lab.train.material import Half, Material, one_thread, parts, sklearn, xgboost
from surefind.lab.train.perceptron import Perceptron, Setting, fit

LAMBDAS = (0.01, 0.1, 1.0, 10.0, 100.0)
TREES = (50, 100, 200)
DEPTHS = (3, 5, 7)
RATES = (0.01, 0.1, 0.3)
SUBSAMPLES = (0.8, 1.0)
LAYERS = ((32, 16), (64, 32), (128, 64))
MLP_RATES = (0.001, 0.0001)
BATCHES = (32, 64, 128)
DROPOUTS = (0.5, 0.7, 0.8)
DECAYS = (0.01, 0.001)
_OF_MLP = ("hidden_dims", "learning_rate", "batch_size", "dropout", "weight_decay")
FOLDS = 5
SEED = 42
Data = tuple[Floats, Floats]
"""Features and α*."""


@dataclass(frozen=True)
class Fitted:
    predictor: Weigher
    chosen: dict[str, Any]
    """The hyperparameters that were chosen."""
    metrics: dict[str, Any]


@dataclass(frozen=True)
class _AlphaSplit:
    train: Data
    validation: Data
    test: Data
    folded: bool
    """Whether cross-validation on `train` chooses the model, instead of `validation`."""

    @classmethod
    def of(cls, material: Material, features: Callable[[Half], Floats]) -> _AlphaSplit:
        tuning, held = material.tuning, material.held
        inputs = features(tuning)
        if material.validation is None:
            rows = parts([query.family for query in tuning.queries], SEED)
            train, validation, test = ((inputs[i], tuning.alphas[i]) for i in rows)
            return cls(train, validation, test, folded=False)
        chosen = np.isin(np.arange(len(inputs)), material.validation)
        train, validation = ((inputs[i], tuning.alphas[i]) for i in (~chosen, chosen))
        return cls(train, validation, (features(held), held.alphas), folded=True)

    def trials(self) -> list[tuple[Data, Data]]:
        """Pairs of data to fit on and data to judge by."""
        if not self.folded:
            return [(self.train, self.validation)]
        x, y = self.train
        inside = [folds(len(y)) == i for i in range(FOLDS)]
        return [((x[~part], y[~part]), (x[part], y[part])) for part in inside]

    def metrics(self, predict: Callable[[Floats], Floats]) -> dict[str, float]:
        return {
            f"r2_{name}": r_squared(y, np.clip(predict(x), 0, 1))
            for name, (x, y) in (("train", self.train), ("validation", self.validation), ("test", self.test))
        }


def folds(count: int) -> NDArray[np.int64]:
    """The fold of each of `count` rows: random, and of equal sizes."""
    return np.random.default_rng(SEED).permutation(count) % FOLDS


def r_squared(truth: Floats, predicted: Floats) -> float:
    spread = float(((truth - truth.mean()) ** 2).sum()) if len(truth) else 0.0
    return 1 - float(((truth - predicted) ** 2).sum()) / spread if spread > 0 else 0.0


def _r2(data: Data, predict: Callable[[Floats], Any]) -> float:
    x, y = data
    return r_squared(y, np.clip(predict(x), 0, 1))


# ---------------------------------------------------------------- ridge


def fit_ridge(material: Material, report: OnProgress) -> Fitted:
    data = _AlphaSplit.of(material, lambda half: of_words(half.texts))
    tried = []
    for i, strength in enumerate(LAMBDAS):
        report("Fitting ridge", i, len(LAMBDAS))
        scores = [_r2(apart, _linear(fitted, strength).predict) for fitted, apart in data.trials()]
        tried.append((float(np.mean(scores)), -i, strength))
    report("Fitting ridge", len(LAMBDAS), len(LAMBDAS))
    strength = max(tried)[-1]
    best = _linear(data.train, strength)
    metrics: dict[str, Any] = data.metrics(best.predict)
    metrics["coefficients"] = dict(zip(WORD_NAMES, best.coef_.tolist(), strict=True))
    judged = of_words(material.held.texts)
    metrics["effects"] = effects(WORD_NAMES, judged, linear(best.coef_, judged))
    return Fitted(Ridge(best.coef_, float(best.intercept_)), {"lambda": strength}, metrics)


def ridge_of(data: Data, chosen: dict[str, Any]) -> Ridge:
    """Ridge with hyperparameters that were chosen before."""
    model = _linear(data, chosen["lambda"])
    return Ridge(model.coef_, float(model.intercept_))


def _linear(data: Data, strength: float) -> Any:
    return sklearn("linear_model").Ridge(alpha=strength).fit(*data)


# ---------------------------------------------------------------- XGBoost


def fit_xgboost(material: Material, report: OnProgress) -> Fitted:
    data = _AlphaSplit.of(material, lambda half: of_scores(half.texts, half.rankings))
    best: tuple[float, dict[str, Any]] = (-np.inf, {})
    grid = list(product(DEPTHS, RATES, SUBSAMPLES))
    for i, (depth, rate, subsample) in enumerate(grid):
        report("Fitting xgboost", i, len(grid))
        settings = {"max_depth": depth, "learning_rate": rate, "subsample": subsample}
        boosters = [(_boosted(fitted, settings, max(TREES)), judged) for fitted, judged in data.trials()]
        for trees in TREES:
            score = float(np.mean([_r2(judged, booster[:trees].inplace_predict) for booster, judged in boosters]))
            if score > best[0]:
                best = score, {"n_estimators": trees, **settings}
    report("Fitting xgboost", len(grid), len(grid))
    chosen = best[1]
    booster = _boosted(data.train, chosen, chosen["n_estimators"])
    metrics: dict[str, Any] = data.metrics(booster.inplace_predict)
    judged = of_scores(material.held.texts, material.held.rankings)
    contributions, words = shap_values(booster, judged), len(WORD_NAMES)
    metrics["effects"] = effects(SCORE_NAMES, judged, contributions)
    metrics["points"] = points(WORD_NAMES, judged[:, :words], contributions[:, :words])
    metrics["shap"] = {name: effect["mean"] for name, effect in metrics["effects"].items()}
    return Fitted(XGBoost(Trees.of(booster)), chosen, metrics)


def xgboost_of(data: Data, chosen: dict[str, Any]) -> XGBoost:
    """XGBoost with hyperparameters that were chosen before."""
    return XGBoost(Trees.of(_boosted(data, chosen, chosen["n_estimators"])))


def _boosted(data: Data, settings: dict[str, Any], trees: int) -> Any:
    module = xgboost()
    given = {name: value for name, value in settings.items() if name != "n_estimators"}
    fixed = {"objective": "reg:squarederror", "tree_method": "hist", "seed": SEED, "nthread": 1}
    return module.train({**given, **fixed}, module.DMatrix(*data), num_boost_round=trees)


def shap(booster: Any, features: Floats, names: Sequence[str]) -> dict[str, float]:
    """Mean |SHAP| of each feature, greatest first."""
    means = np.abs(shap_values(booster, features)).mean(axis=0).tolist()
    return dict(sorted(zip(names, means, strict=True), key=lambda item: -item[1]))


def shap_values(booster: Any, features: Floats) -> Floats:
    """The exact contribution of each feature to each prediction (TreeSHAP, Lundberg and Lee 2018)."""
    return np.asarray(booster.predict(xgboost().DMatrix(features), pred_contribs=True)[:, :-1], dtype=np.float64)


# ---------------------------------------------------------------- MLP


def fit_mlp(material: Material, report: OnProgress) -> Fitted:
    data = _AlphaSplit.of(material, lambda half: np.asarray(material.embed(half.texts), dtype=np.float64))
    grid = list(product(LAYERS, MLP_RATES, BATCHES, DROPOUTS, DECAYS))
    best: tuple[float, dict[str, Any], Perceptron | None] = (-np.inf, {}, None)
    for i, values in enumerate(grid):
        report("Fitting mlp", i, len(grid))
        chosen: dict[str, Any] = dict(zip(_OF_MLP, values, strict=True))
        model = _perceptron(data.train, data.validation, chosen)
        score = _r2(data.validation, model.predict)
        if score > best[0]:
            best = score, chosen, model
    report("Fitting mlp", len(grid), len(grid))
    _, chosen, fitted = best
    if fitted is None:
        raise ExamError("No MLP could be fitted: the vectors of the questions are not numbers. Check the encoder.")
    metrics: dict[str, Any] = {**data.metrics(fitted.predict), "losses": [list(pair) for pair in fitted.losses]}
    return Fitted(MLP(_doubles(fitted)), {**chosen, "hidden_dims": list(chosen["hidden_dims"])}, metrics)


def mlp_of(data: Data, validation: Data, chosen: dict[str, Any]) -> MLP:
    """The MLP with hyperparameters that were chosen before; `validation` decides when training ends."""
    return MLP(_doubles(_perceptron(data, validation, chosen)))


def _perceptron(data: Data, validation: Data, chosen: dict[str, Any]) -> Perceptron:
    hidden, rate, batch, dropout, decay = (chosen[name] for name in _OF_MLP)
    with one_thread():
        return fit(data, validation, Setting(tuple(hidden), rate, batch, dropout, decay), SEED)


def _doubles(model: Perceptron) -> tuple[tuple[Floats, Floats], ...]:
    return tuple((matrix.astype(np.float64), bias.astype(np.float64)) for matrix, bias in model.layers)
