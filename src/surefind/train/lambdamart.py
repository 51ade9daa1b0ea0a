"""`lambdamart`: trains boosted trees that reorder the best static fusion to maximise the measure itself.

xgboost's `rank:ndcg` works on the head of the best static fusion (its weights and scaling chosen on the tuning half);
the static score is the base score of every candidate. The number of trees is chosen on out-of-fold predictions over the
tuning half. Trees are kept only if they gain more than the standard error there; otherwise the model *is* the static
fusion.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.fuse.support.features import Rarity
from surefind.fuse.support.join import present
from surefind.fuse.support.lambdamart import REORDERED, SCALE, LambdaMART, candidate_names, candidates, corrected
from surefind.fuse.support.predictors import SOURCE, Norm, blend
from surefind.fuse.support.trees import Trees
from surefind.protocols import OnProgress
from surefind.train.alpha import SEED, Fitted, shap
from surefind.train.gain import rarity_of, spread_folds
from surefind.train.material import Half, Material, best_static, xgboost
from surefind.types import Floats, Rankings

FOLDS = 3
TREES = (0, 25, 50, 100, 200)
SETTINGS = {
    "objective": "rank:ndcg",
    "ndcg_exp_gain": False,
    "lambdarank_pair_method": "topk",
    "lambdarank_num_pair_per_sample": 8,
    "tree_method": "hist",
    "max_depth": 4,
    "learning_rate": 0.05,
    "subsample": 0.8,
    "colsample_bytree": 0.6,
    "min_child_weight": 1.0,
    "reg_lambda": 5.0,
    "max_bin": 64,
    "base_score": 0.0,
    "seed": SEED,
    "nthread": 1,
}
_IMPORTANCE_QUESTIONS = 300
"""Questions over whose candidates the importance of features is averaged."""

Rows = NDArray[np.int64]


def fit_lambdamart(material: Material, report: OnProgress) -> Fitted:
    norm, static = best_static(material)
    rarity = rarity_of(material)
    data = _Data(material.tuning, norm, static, rarity)
    folds = spread_folds([query.family for query in material.tuning.queries], FOLDS)
    scores = np.zeros((len(folds), len(TREES)))
    for fold in range(FOLDS):
        report("Fitting lambdamart", fold, FOLDS + 1)
        out = np.flatnonzero(folds == fold)
        scores[out] = data.scores(data.fit(np.flatnonzero(folds != fold)), out)
    kept, expected = how_many(scores)
    report("Fitting lambdamart", FOLDS, FOLDS + 1)
    booster = data.fit(np.arange(len(folds)))
    report("Fitting lambdamart", FOLDS + 1, FOLDS + 1)
    metrics: dict[str, Any] = {"expected_gain": expected}
    if kept:
        names = tuple(candidate_names([ranking.source for ranking in material.tuning.rankings]))
        metrics["shap"] = shap(booster[:kept], data.rows(np.arange(min(_IMPORTANCE_QUESTIONS, len(folds)))), names)
    trees = Trees.of(booster[:kept]) if kept else Trees.none()
    chosen = {"trees": kept, "norm": norm, "static": [round(weight, 4) for weight in static.tolist()]}
    return Fitted(LambdaMART(norm, static, rarity, trees), chosen, metrics)


def how_many(scores: Floats) -> tuple[int, float]:
    """The best number of trees, and their mean gain on questions they have not seen. For equal gains, the fewer."""
    best, gain = 0, 0.0
    for i, trees in enumerate(TREES[1:], 1):
        won = scores[:, i] - scores[:, 0]
        if won.mean() > max(gain, float(won.std()) / len(won) ** 0.5):
            best, gain = trees, float(won.mean())
    return best, gain


class _Data:
    """The heads of the static fusion for one half, with features and grades."""

    def __init__(self, half: Half, norm: Norm, static: Floats, rarity: Rarity) -> None:
        self._half = half
        self._before = blend(half.rankings, static[None], norm, half.width, SOURCE)
        self._there = present(self._before)[:, :REORDERED]
        self._table = candidates(half.texts, half.rankings, self._before, rarity)
        self._grades = _grades(half, self._before)[self._there]
        self._sizes = self._there.sum(axis=1)
        self._ends = np.concatenate([[0], np.cumsum(self._sizes)])

    def fit(self, questions: Rows) -> Any:
        """Fits the trees on those of the questions that have both relevant and other candidates."""
        module = xgboost()
        useful = [q for q in questions if 0 < np.count_nonzero(self._of(self._grades, q)) < self._sizes[q]]
        data = module.DMatrix(self._picked(self._table, useful), self._picked(self._grades, useful))
        data.set_group(self._sizes[useful])
        base = self._before.scores[:, :REORDERED][self._there] * SCALE
        data.set_base_margin(self._picked(base, useful))
        return module.train(SETTINGS, data, num_boost_round=max(TREES))

    def rows(self, questions: Rows) -> Floats:
        return np.asarray(self._picked(self._table, questions.tolist()))

    def scores(self, booster: Any, questions: Rows) -> Floats:
        """The measure of each question for each number of trees, (questions, numbers of trees)."""
        rows = self.rows(questions)
        base = np.zeros(len(rows), np.float32)
        fold_scores = np.zeros((len(questions), len(TREES)))
        half = self._half.taken(questions)
        there = self._there[questions]
        for i, trees in enumerate(TREES):
            gains = np.zeros(there.shape)
            if trees:
                gains[there] = booster.inplace_predict(rows, iteration_range=(0, trees), base_margin=base)
            fold_scores[:, i] = half.score(corrected(_taken(self._before, questions), gains))
        return fold_scores

    def _of(self, table: Any, question: int) -> Any:
        return table[self._ends[question] : self._ends[question + 1]]

    def _picked(self, table: Any, questions: list[int]) -> Any:
        return np.concatenate([self._of(table, q) for q in questions]) if questions else table[:0]


def _grades(half: Half, before: Rankings) -> Floats:
    """The gain that each candidate would have at the first rank."""
    ones = (Rankings(before.ids[:, i : i + 1], before.scores[:, i : i + 1], "", "mixed") for i in _columns(before))
    grades = [half.judge.gains(ranking, half.measure.level).gains[:, :1] for ranking in ones]
    return np.concatenate(grades, axis=1) if grades else np.zeros((len(before), 0))


def _columns(before: Rankings) -> range:
    return range(min(REORDERED, before.ids.shape[1]))


def _taken(ranking: Rankings, rows: Rows) -> Rankings:
    return Rankings(ranking.ids[rows], ranking.scores[rows], ranking.source, ranking.signal)
