"""The third stage: BM25 and vectors fused with fixed, learned and ideal weights, on the layout that won before.

The candidates are the union of the ten best of each retriever. Ridge, XGBoost and the MLP learn α* on 70% of the
questions and are tested on 15%, as in the paper. For the later stages, which ask all questions, each question's α is
predicted by a model that has not seen it (five folds).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surefind.base.errors import MissingPartError
from surefind.base.types import Floats, Rankings
from surefind.engine.fuse.support.features import alpha_at
from surefind.engine.fuse.support.predictors import blend
from surefind.lab.bench.engine import Scored
from surefind.lab.bench.plan import Contender
from surefind.lab.exam.model import clusters_of
from surefind.lab.study.context import RunContext
from surefind.lab.study.scores import plain_row, summary
from surefind.lab.study.stage import Before, half_of
from surefind.lab.study.studies.agentic_kb import _setting as paper
from surefind.lab.study.studies.agentic_kb._setting import Scorer, by_row, groups_of, layout_of, winner
from surefind.lab.train.alpha import Fitted, alphas_of, cross_fitted, fit_mlp, fit_ridge, fit_xgboost
from surefind.lab.train.material import MIN_QUESTIONS, Half, Material, divided

FITS = {"ridge": fit_ridge, "xgboost": fit_xgboost, "mlp": fit_mlp}
BEST = "Best α of each question (ours)"
_GRID = [round(i / 10, 1) for i in range(11)]
Rows = dict[str, dict[str, Floats]]
"""Row -> measure -> the score of each question."""


def pipeline(alpha: float) -> str:
    return f"bm25 + dense @10 >> tm2c2(alpha={alpha})"


def contenders(context: RunContext, before: Before) -> list[Contender]:
    layout = layout_of(context, winner(context, before))
    return [context.contender(name, pipeline(alpha), layout) for name, alpha in paper.ALPHAS.items()]


def measure(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    scored = context.score(allowed, paper.KEY)
    half = half_of(context, scored)
    scorer = Scorer(context, scored, half.queries, paper.KEY)
    rows = by_row(scored.scores, [contender.name for contender in scored.plan.contenders])
    ideal = _ideal(scorer, half)
    learned = _learned(context, scored, half)
    alphas: dict[str, Floats] = learned.pop("alphas", {})
    predicted = {paper.LEARNED[kind]: scorer.scores(fused(half, alpha)) for kind, alpha in alphas.items()}
    tested = {
        paper.LEARNED[kind]: scorer.scores(fused(half, alpha)) for kind, alpha in learned.pop("tested", {}).items()
    }
    families = [query.family for query in half.queries]
    test: list[int] = learned.get("test", [])
    apart = {
        name: {key: values[test] for key, values in row.items()} for name, row in {**rows, **tested, **ideal}.items()
    }
    return {
        **_all_rows(scored, {**predicted, **ideal}),
        **learned,
        "groups": groups_of([families[i] for i in test], apart),
        "groups_all": groups_of(families, {**rows, **predicted, **ideal}),
        "layout": winner(context, before),
        "stars": half.alphas.round(4).tolist(),
        "alphas": {kind: alpha.round(6).tolist() for kind, alpha in alphas.items()},
        "ids": [query.id for query in half.queries],
        "ladder": {
            key: values.round(6).tolist() for key, values in predicted.get(paper.LEARNED["xgboost"], {}).items()
        },
    }


def fused(half: Half, alpha: Floats) -> Rankings:
    """The fusion with these weights of the dense ranking, one for each question."""
    at = alpha_at([ranking.signal for ranking in half.rankings])
    weights = np.stack([1 - alpha, alpha] if at == 1 else [alpha, 1 - alpha], axis=1)
    return blend(half.rankings, weights, "floor", half.width, "learned")


def _ideal(scorer: Scorer, half: Half) -> Rows:
    """The oracle α*, and the best α of each question by each measure, which no choice of α can beat."""
    tried = [scorer.scores(fused(half, np.full(len(half.queries), alpha))) for alpha in _GRID]
    best = {key: np.max([scores[key] for scores in tried], axis=0) for key in paper.KEY}
    return {paper.ORACLE: scorer.scores(fused(half, half.alphas)), BEST: best}


def _all_rows(scored: Scored, more: Rows) -> dict[str, Any]:
    summed = summary(scored)
    clusters = clusters_of(scored.plan.exam.queries)
    made = {name: plain_row(name, scores, summed["primary"], clusters) for name, scores in more.items()}
    return {**summed, "rows": {**summed["rows"], **made}}


# ---------------------------------------------------------------- learning α*


def _learned(context: RunContext, scored: Scored, half: Half) -> dict[str, Any]:
    """The three models: what was chosen, their metrics, and their α for the test questions and for all questions."""
    if len(half.queries) < MIN_QUESTIONS:
        why = f"left out: {len(half.queries)} questions are too few to train on; {MIN_QUESTIONS} are needed"
        return {"left_out": dict.fromkeys(paper.LEARNED.values(), why), "test": list(range(len(half.queries)))}
    material, test = _material(context, scored, half)
    models: dict[str, Any] = {}
    left_out, alphas, tested = {}, {}, {}
    for kind, fit in FITS.items():
        try:
            fitted: Fitted = fit(material, context.report)
            alphas[kind] = cross_fitted(kind, half, fitted.chosen, material.embed)
        except MissingPartError as error:
            left_out[paper.LEARNED[kind]] = f"left out: {str(error).rstrip('.')}"
            continue
        predicted = np.full(len(half.queries), 0.5)
        predicted[test] = alphas_of(fitted.predictor, material.held, material.embed)
        tested[kind] = predicted
        models[kind] = {"chosen": fitted.chosen, **fitted.metrics, "test": predicted[test].round(4).tolist()}
    return {"models": models, "left_out": left_out, "alphas": alphas, "tested": tested, "test": test}


def _material(context: RunContext, scored: Scored, half: Half) -> tuple[Material, list[int]]:
    contender = scored.plan.contenders[0]
    tuning, held, validation = divided(half.queries, "70/15/15")
    embedder = next(
        str(getattr(retriever, "model", "")) for retriever in contender.pipeline.retrieve if retriever.signal == "dense"
    )
    material = Material(
        scored.plan.exam,
        contender.pipeline,
        None,
        scored.view,
        half.taken(tuning),
        half.taken(held),
        context.services.embedder(embedder).embed_queries,
        embedder,
        validation,
    )
    return material, held.tolist()
