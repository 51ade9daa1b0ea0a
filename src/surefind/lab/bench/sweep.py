"""The α sweep: fuses a lexical and a dense ranking with every weight, and computes two oracles.

The fusion is `convex`, or `tm2c2` if the contenders use that one only. The oracles use the answers: the closed-form α*
of each question (`measure.lss`), and the best α of the sweep for each question, which no prediction of α can beat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from surefind.base.types import Floats, Rankings
from surefind.engine.fuse.convex import Convex
from surefind.engine.fuse.support.predictors import blend
from surefind.engine.fuse.tm2c2 import TM2C2
from surefind.engine.search.parents import fold
from surefind.engine.search.pipeline import Pipeline
from surefind.lab.bench.engine import Outcome
from surefind.lab.bench.report import AlphaSweep, SweepPoint
from surefind.lab.exam.clusters import clusters_of
from surefind.lab.measure.lss import Labeller
from surefind.lab.measure.ranks import MEASURES
from surefind.lab.measure.statistics import bootstrap

ALPHAS = tuple(i / 10 for i in range(11))
PAIR = ["dense", "sparse"]


def alpha_sweep(outcome: Outcome, documents: Mapping[str, str]) -> AlphaSweep | None:
    """The primary measure for α from 0 (lexical only) to 1 (dense only).

    None if layouts are compared, if the primary measure is a gold-span measure, or if a lexical or a dense ranking is
    missing.
    """
    plan = outcome.plan
    path = None if plan.compares_layouts or plan.primary.of_spans else _joined(outcome)
    if path is None:
        return None
    rankings = [outcome.retrieved["", str(retriever), path.depth] for retriever in path.retrieve]
    used = [contender.pipeline.fuse for contender in plan.contenders if replace(contender.pipeline, fuse=None) == path]
    study = any(isinstance(fuse, TM2C2) for fuse in used) and not any(isinstance(fuse, Convex) for fuse in used)
    fusers: list[TM2C2 | Convex] = [TM2C2(alpha) if study else Convex(alpha) for alpha in ALPHAS]
    scored = {c.pipeline: outcome.scores[str(plan.primary)][:, i] for i, c in enumerate(plan.contenders)}
    columns = []
    for fuser in fusers:
        known = scored.get(replace(path, fuse=fuser))
        columns.append(_score(outcome, fuser.fuse(rankings, _width(rankings))) if known is None else known)
    table = np.stack(columns, axis=1)
    clusters = clusters_of(plan.exam.queries)
    families = [query.family for query in plan.exam.queries]
    masks = {name: np.array([f == name for f in families]) for name in sorted(set(families))}
    points = tuple(
        SweepPoint(
            alpha=alpha,
            mean=interval.mean,
            low=interval.low,
            high=interval.high,
            families={name: float(table[mask, i].mean()) for name, mask in masks.items()},
        )
        for i, (alpha, interval) in enumerate(zip(ALPHAS, bootstrap(table, clusters=clusters), strict=True))
    )
    oracles = np.stack([_with_alpha_star(outcome, rankings, documents), table.max(axis=1)], axis=1)
    star, best = bootstrap(oracles, clusters=clusters)
    return AlphaSweep(measure=str(plan.primary), fuser=fusers[0].name, points=points, star=star, best=best)


def _joined(outcome: Outcome) -> Pipeline | None:
    """A pipeline with a lexical and a dense retriever: the first two that a contender fuses, or else the first of each
    that a contender uses alone."""
    pipelines = [replace(contender.pipeline, fuse=None, rerank=()) for contender in outcome.plan.contenders]
    for pipeline in pipelines:
        if sorted(retriever.signal for retriever in pipeline.retrieve) == PAIR:
            return pipeline
    alone = {p.retrieve[0].signal: p for p in reversed(pipelines) if len(p.retrieve) == 1}
    if "sparse" not in alone or "dense" not in alone or alone["sparse"].depth != alone["dense"].depth:
        return None
    return replace(alone["sparse"], retrieve=(*alone["sparse"].retrieve, *alone["dense"].retrieve))


def _with_alpha_star(outcome: Outcome, rankings: list[Rankings], documents: Mapping[str, str]) -> Floats:
    stars = Labeller(outcome.plan.exam.queries, outcome.view.spans(), documents).alphas(rankings)
    weights = np.stack([stars if ranking.signal == "dense" else 1 - stars for ranking in rankings], axis=1)
    return _score(outcome, blend(rankings, weights, "floor", _width(rankings), "oracle"))


def _width(rankings: list[Rankings]) -> int:
    """Room for all candidates of the rankings: a search fuses all of them, too."""
    return sum(ranking.ids.shape[1] for ranking in rankings)


def _score(outcome: Outcome, ranking: Rankings) -> Floats:
    measure, whole = outcome.plan.primary, fold(ranking, outcome.view.parents)
    scores: Floats = MEASURES[measure.name](outcome.judges[0].gains(whole, measure.level), measure.k)
    return scores
