"""Models that predict α*: ridge on 4 features, XGBoost on 25, an MLP on the query's vector.

The grids are those of the agentic-knowledge-base study (4.2). With `split=70/15/15`, ridge and XGBoost are chosen by
5-fold cross-validation on the 70%, and the MLP by the validation part, as in the study. With halves, all three are
chosen by the validation part of a 70/15/15 split of the tuning half. XGBoost's 54 settings need 18 fits, because 50 and
100 trees are the first of 200. The study counts 90 settings of the MLP, but its lists give 108; all of them are tried.

How much each feature moves the predictions of a model, and in which direction, by SHAP values.

A SHAP value is the part of one prediction that one feature explains; the parts add up to the prediction minus the mean
one (Lundberg and Lee 2017). For boosted trees, xgboost computes them exactly. For a linear model they are

    φ_i(x) = w_i · (x_i - mean(x_i))

A multilayer perceptron that predicts a number from 0 to 1, trained as in the agentic-knowledge-base study (4.2).

    h_1 = drop(ReLU(W_1 x + b_1))    h_2 = drop(ReLU(W_2 h_1 + b_2))    y = sigmoid(W_3 h_2 + b_3)        MSE loss

AdamW (Loshchilov and Hutter 2019), at most 100 epochs. Training ends when the validation loss has not improved for 10
epochs, and the weights of the best epoch are kept. Weights start as in PyTorch's `Linear`: uniform within ±1 / √inputs.

Predicts α for every question by models that have not seen it: five folds, with hyperparameters chosen before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.base.errors import ExamError
from surefind.base.protocols import OnProgress
from surefind.base.types import FloatArray, Floats
from surefind.engine.fuse.support.features import SCORE_NAMES, WORD_NAMES, alpha_at, of_scores, of_words
from surefind.engine.fuse.support.predictors import MLP, Embed, Ridge, Weigher, XGBoost
from surefind.engine.fuse.support.trees import Trees
from surefind.lab.train.material import Half, Material, Rows, one_thread, parts, sklearn, xgboost

EPOCHS, PATIENCE = 100, 10
_BETAS, _EPSILON = (0.9, 0.999), 1e-8
Pair = tuple[NDArray[np.floating], Floats]
"""Features and targets."""
Layers = tuple[tuple[FloatArray, FloatArray], ...]
"""(matrix, bias) of each layer; all are views of one array."""


@dataclass(frozen=True)
class Setting:
    hidden: tuple[int, ...]
    rate: float
    batch: int
    dropout: float
    decay: float


@dataclass(frozen=True, eq=False)
class Perceptron:
    layers: Layers
    losses: tuple[tuple[float, float], ...]
    """Training and validation loss of each epoch. The training loss is that of the batches, with dropout."""

    def predict(self, x: NDArray[np.floating]) -> Floats:
        return forward(self.layers, x)


def forward(layers: Sequence[tuple[NDArray[np.floating], NDArray[np.floating]]], x: NDArray[np.floating]) -> Floats:
    """The prediction for each row, without dropout."""
    at = np.asarray(x)
    for matrix, bias in layers[:-1]:
        at = np.maximum(at @ matrix + bias, 0.0)
    matrix, bias = layers[-1]
    return _sigmoid((at @ matrix + bias)[:, 0].astype(np.float64))


def fit(train: Pair, validation: Pair, setting: Setting, seed: int) -> Perceptron:
    rng = np.random.default_rng(seed)
    x, y = train[0].astype(np.float32), train[1].astype(np.float32)
    values, layers = _start((x.shape[1], *setting.hidden, 1), rng)
    optimizer = _AdamW(values, setting)
    best, kept, waited = np.inf, values.copy(), 0
    losses: list[tuple[float, float]] = []
    for _ in range(EPOCHS):
        order = rng.permutation(len(x))
        parts = [order[i : i + setting.batch] for i in range(0, len(order), setting.batch)]
        seen = sum(_step(x[part], y[part], layers, optimizer, setting.dropout, rng) * len(part) for part in parts)
        loss = float(((forward(layers, validation[0]) - validation[1]) ** 2).mean())
        losses.append((float(seen) / len(x), loss))
        waited = 0 if loss < best else waited + 1
        if loss < best:
            best, kept = loss, values.copy()
        if waited >= PATIENCE:
            break
    values[:] = kept
    return Perceptron(layers, tuple(losses))


class _AdamW:
    """Adam with weight decay that does not pass through the moments."""

    def __init__(self, values: FloatArray, setting: Setting) -> None:
        self._values, self._setting = values, setting
        self.gradient = np.zeros_like(values)
        self._first, self._second, self._steps = np.zeros_like(values), np.zeros_like(values), 0

    def step(self) -> None:
        (one, two), rate = _BETAS, self._setting.rate
        self._steps += 1
        self._first += (1 - one) * (self.gradient - self._first)
        self._second += (1 - two) * (self.gradient**2 - self._second)
        size = np.sqrt(self._second / (1 - two**self._steps)) + _EPSILON
        self._values *= 1 - rate * self._setting.decay
        self._values -= rate / (1 - one**self._steps) * self._first / size


def _start(sizes: Sequence[int], rng: np.random.Generator) -> tuple[FloatArray, Layers]:
    """All parameters in one array, and the layers as views of it."""
    bounds = [np.full((a + 1) * b, a**-0.5) for a, b in pairwise(sizes)]
    limit = np.concatenate(bounds)
    values = (rng.uniform(-1, 1, len(limit)) * limit).astype(np.float32)
    return values, _views(values, sizes)


def _views(values: FloatArray, sizes: Sequence[int]) -> Layers:
    layers, at = [], 0
    for a, b in pairwise(sizes):
        layers.append((values[at : at + a * b].reshape(a, b), values[at + a * b : at + (a + 1) * b]))
        at += (a + 1) * b
    return tuple(layers)


def _step(
    x: FloatArray, y: FloatArray, layers: Layers, optimizer: _AdamW, dropout: float, rng: np.random.Generator
) -> float:
    """One step on a batch. Returns its loss."""
    inputs, kept = [x], []
    for matrix, bias in layers[:-1]:
        hidden = np.maximum(inputs[-1] @ matrix + bias, 0.0)
        mask = (rng.random(hidden.shape, dtype=np.float32) >= dropout) / np.float32(1 - dropout)
        kept.append(mask * (hidden > 0))
        inputs.append(hidden * mask)
    matrix, bias = layers[-1]
    predicted = _sigmoid((inputs[-1] @ matrix + bias)[:, 0])
    error = predicted - y
    back = (2 / len(y) * error * predicted * (1 - predicted))[:, None]
    sizes = [x.shape[1], *(len(bias) for _, bias in layers)]
    for i, (to_matrix, to_bias) in reversed(list(enumerate(_views(optimizer.gradient, sizes)))):
        to_matrix[:], to_bias[:] = inputs[i].T @ back, back.sum(axis=0)
        if i:
            back = (back @ layers[i][0].T) * kept[i - 1]
    optimizer.step()
    return float((error**2).mean())


def _sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    """In the precision of its argument."""
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -60, 60))))


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


def cross_fitted(kind: str, half: Half, chosen: dict[str, Any], embed: Embed) -> Floats:
    """α of each question by `ridge`, `xgboost` or `mlp`."""
    fold = folds(len(half.queries))
    features = _features(kind, half, embed)
    alphas = np.zeros(len(fold))
    for i in range(FOLDS):
        apart = half.taken(np.flatnonzero(fold == i))
        model = _fitted(kind, features, half.alphas, chosen, fold, i)
        alphas[fold == i] = alphas_of(model, apart, embed)
    return alphas


def alphas_of(model: Weigher, half: Half, embed: Embed) -> Floats:
    """The weight of the dense ranking for each question."""
    at = alpha_at([ranking.signal for ranking in half.rankings])
    return np.asarray(model.weights(half.texts, half.rankings, embed)[:, at])


def _features(kind: str, half: Half, embed: Embed) -> Floats:
    if kind == "ridge":
        return of_words(half.texts)
    if kind == "xgboost":
        return of_scores(half.texts, half.rankings)
    return np.asarray(embed(half.texts), dtype=np.float64)


def _fitted(kind: str, features: Floats, targets: Floats, chosen: dict[str, Any], fold: Rows, apart: int) -> Weigher:
    def rows(inside: Any) -> Data:
        return features[inside], targets[inside]

    if kind == "ridge":
        return ridge_of(rows(fold != apart), chosen)
    if kind == "xgboost":
        return xgboost_of(rows(fold != apart), chosen)
    stops = (apart + 1) % FOLDS  # the next fold decides when training ends
    return mlp_of(rows((fold != apart) & (fold != stops)), rows(fold == stops), chosen)
