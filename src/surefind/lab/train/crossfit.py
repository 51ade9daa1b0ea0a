"""Predicts α for every question by models that have not seen it: five folds, with hyperparameters chosen before."""

from __future__ import annotations

from typing import Any

import numpy as np

from surefind.base.types import Floats
from surefind.engine.fuse.support.features import alpha_at, of_scores, of_words
from surefind.engine.fuse.support.predictors import Embed, Weigher
from surefind.lab.train.alpha import FOLDS, Data, folds, mlp_of, ridge_of, xgboost_of
from surefind.lab.train.material import Half, Rows


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
