"""The stages of the cascade study: static weights, fusions, the ablation, latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surefind.base.disk.records import to_json
from surefind.engine.fuse.support.weighing import rule_weights
from surefind.engine.retrieve.entity_overlap import EntityOverlap
from surefind.engine.retrieve.sparse import Sparse
from surefind.lab.bench.movement import Movement
from surefind.lab.bench.plan import Contender
from surefind.lab.study.corpora import sampled
from surefind.lab.study.desk import RunContext
from surefind.lab.study.half import half_of
from surefind.lab.study.scores import plain_row, summary
from surefind.lab.study.stage import Before
from surefind.lab.study.studies.cascade import _paper as paper
from surefind.lab.train.material import simplex

NDCG = "nDCG@10"
MEASURES = tuple(f"{name}@{k}" for k in (10, 5, 1) for name in ("nDCG", "RR", "AP", "R", "P"))
"""The five measures of the paper at 1, 5 and 10; the first one decides."""
STATIC = (0.50, 0.35, 0.15)
"""The weights of dense, sparse and graph in the paper."""
_THREE = "dense + sparse + entity_overlap"
_WHOLE = f"{_THREE} @10000"
"""The three retrievers over the whole collection (10,000 passages of it at most), because the paper scales scores by
the lowest and the highest of all documents, not of the best hundred."""
_TRI = f"{_THREE} >> rrf(k=60)"
_LLM_TOKENS = 250
_NAMES = ("w_dense", "w_sparse", "w_graph")
_CE = f"{_TRI} >> cross_encoder(top=100, keep=10, blend=1.0)"
PIPELINES = {
    paper.DENSE: "dense",
    paper.BI: "dense + sparse >> rrf(k=60)",
    paper.TRI: _TRI,
    paper.CE: _CE,
    paper.FULL: f"{_CE} >> llm_listwise(top=10, keep=5, reverse=false, max_tokens={_LLM_TOKENS}, prompt=paper_cascade)",
}
_PARTS = 20
"""The simplex of weights in steps of 0.05."""
_MIN_TUNED, _MAX_TUNED = 30, 100
"""Questions to tune on: at least, and at most."""


# ---------------------------------------------------------------- static weights


def tune(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """Scores every point of the simplex on questions that are not asked later. The retrievers run once."""
    rest = desk.collection.rest
    there = 0 if rest is None else len(rest.queries)
    if rest is None or there < _MIN_TUNED:
        why = (
            f"left out: {there} questions are left to tune on, and {_MIN_TUNED} are needed; ask fewer with --questions"
        )
        return {"left_out": {paper.TUNED: why}}
    scored = desk.on(sampled(rest, _MAX_TUNED, 42)).score([desk.contender("three", f"{_WHOLE} >> rrf")], [NDCG])
    points = simplex(3, _PARTS)
    means = half_of(desk, scored, "score").sweep(points, "minmax").mean(axis=0)
    listed = np.column_stack([points.round(2), means.round(5)])
    return {
        "weights": points[int(means.argmax())].round(2).tolist(),
        "points": listed.tolist(),
        "questions": len(scored.plan.exam.queries),
    }


# ---------------------------------------------------------------- fusions on identical candidates


def fusions(desk: RunContext, before: Before) -> list[Contender]:
    weights = {paper.STATIC: STATIC}
    if tuned := before.get("tuning", {}).get("weights"):
        weights[paper.TUNED] = tuple(tuned)
    fusers = {name: f"weighted(weights={list(given)}, missing=score)" for name, given in weights.items()}
    fusers[paper.DYNAMIC] = "llm_weights(mode=query, missing=score, reverse=false, prompt=paper)"
    fusers[paper.INFORMED] = "llm_weights(mode=informed, missing=score, reverse=false)"
    return desk.contenders({name: f"{_WHOLE} >> {fuser}" for name, fuser in fusers.items()})


def fuse(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """All fusions of the same candidates, and the paper's rules for when its model fails, which need no model."""
    scored = desk.score(allowed, [NDCG])
    summed = summary(scored)
    half = half_of(desk, scored, "score")
    rules = np.array([rule_weights(text, [ranking.signal for ranking in half.found]) for text in half.texts])
    scores = half.blended(rules, "minmax")
    spec = "weights (0.30, 0.55, 0.15) for finance and numbers, else (0.55, 0.30, 0.15)"
    by_rule = plain_row(spec, {NDCG: scores}, NDCG, np.array(summed["clusters"]))
    return {
        **summed,
        "rows": {**summed["rows"], paper.RULE: by_rule},
        "left_out": before.get("tuning", {}).get("left_out", {}),
    }


# ---------------------------------------------------------------- ablation


def ablation(desk: RunContext, before: Before) -> list[Contender]:
    return desk.contenders(PIPELINES)


def ablate(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """The five configurations, and what the rerankers moved."""
    scored = desk.score(allowed, MEASURES)
    titles = desk.titles()
    movement = Movement(scored.plan.exam.queries, scored.judges[0], scored.plan.primary, scored.view.spans(), titles)
    names = [contender.name for contender in scored.plan.contenders]
    steps = dict(zip(names, scored.steps, strict=True))
    moved = {"cross_encoder": steps.get(paper.CE, ()), "llm": steps.get(paper.FULL, ())[1:]}
    return {
        **summary(scored),
        "setup": _setup(desk),
        "moved": {stage: to_json(movement.of(made[0])) for stage, made in moved.items() if made},
    }


def _setup(desk: RunContext) -> dict[str, str]:
    """The components that were used, under the names of Table C."""
    encoder = desk.options.encoders[0] if desk.options.encoders else "minilm"
    words, graph = Sparse(), EntityOverlap()
    return {
        "Dense encoder": f"{encoder} ({desk.services.embedder(encoder).dimension}-dim)",
        "Cross-encoder": "the bundled one",
        "LLM reranker": desk.services.chat_name(None) if desk.options.llm else "",
        "Candidate stages": "Top-100 → Top-10 → Top-5",
        "LLM max_tokens": str(_LLM_TOKENS),
        "RRF constant k": "60",
        "Static weights": ", ".join(f"{name} = {w:.2f}" for name, w in zip(_NAMES, STATIC, strict=True)),
        "BM25 parameters": f"k1 = {words.k1}, b = {words.b}",
        "PageRank alpha": str(graph.damping),
    }


# ---------------------------------------------------------------- latency


def timed(desk: RunContext, before: Before) -> list[Contender]:
    weights = f"{_THREE} >> llm_weights(mode=query, reverse=false, prompt=paper)"
    return [desk.contender(name, text) for name, text in ((paper.CE, _CE), (paper.FULL, PIPELINES[paper.FULL]))] + [
        desk.contender("Weight Assignment", weights)
    ]


def clock(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """The milliseconds of each stage for one question at a time."""
    plan = desk.plan(allowed, [NDCG])
    desk.bench.build(plan)
    stages = {name: times for timing in desk.bench.latency(plan) for name, times in timing.stages.items()}
    return {"stages": to_json(stages)}
