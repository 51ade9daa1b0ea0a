"""The fourth stage: the fused ranking is reranked if its highest score is below τ (eqs. 28 to 32).

Every question is reranked once; a threshold then only decides whose new order counts. Without a language model, a
cross-encoder takes its place on a sample of the questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from surefind.base.abilities import name_of
from surefind.base.types import Floats, Query
from surefind.engine.confidence.measures import confidence
from surefind.lab.bench.engine import Scored
from surefind.lab.bench.plan import Contender
from surefind.lab.exam.clusters import clusters_of
from surefind.lab.measure.statistics import compare_all, wilson
from surefind.lab.measure.thresholds import MIN_QUESTIONS, chosen, thresholds
from surefind.lab.study.corpora import sampled
from surefind.lab.study.desk import RunContext
from surefind.lab.study.half import half_of
from surefind.lab.study.stage import Before
from surefind.lab.study.studies.agentic_kb import _paper as paper
from surefind.lab.study.studies.agentic_kb._fusion import fused, pipeline
from surefind.lab.study.studies.agentic_kb._layouts import layout_of, winner
from surefind.lab.study.studies.agentic_kb._scoring import Scorer
from surefind.lab.train.material import Half

LLM, STAND_IN = "LLM reranking", "Cross-encoder (ours)"
_LLM = (
    "llm_listwise(top=20, keep=20, reverse=false, passage_tokens=2000, max_tokens=1000, temperature=0.2, prompt=paper)"
)
_RERANKERS = {LLM: _LLM, STAND_IN: "cross_encoder(top=20)"}
_FIXED = 0.5
"""α if no model was trained."""
_MAX_RERANKED = 150
"""Questions that the cross-encoder reranks, at most: it takes about a second for each."""
_SEED = 42
_MEASURES = (*paper.KEY, "T5EM")


def contenders(desk: RunContext, before: Before) -> list[Contender]:
    layout = layout_of(desk, winner(desk, before))
    return [desk.contender(name, f"{pipeline(_FIXED)} >> {text}", layout) for name, text in _RERANKERS.items()]


def measure(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    contender = next((one for one in allowed if one.name == LLM), allowed[-1])
    plain = replace(contender, pipeline=replace(contender.pipeline, rerank=(), name=""))
    scored = desk.score([plain], ["nDCG@10"])
    half, alphas = _asked(scored, half_of(desk, scored), before, contender.name == STAND_IN)
    ranking = fused(half, alphas)
    step = desk.bench.reranking(contender, scored.plan).run(
        contender.pipeline.rerank[0],
        [Query(query.text, query.id) for query in half.queries],
        ranking,
        max(1, ranking.ids.shape[1]),
        partial(desk.report, f"Reranking {contender.name}"),
    )
    scorer = Scorer(desk, scored, half.queries, _MEASURES)
    never, always = scorer.scores(step.before), scorer.scores(step.after)
    sure = confidence(ranking, [], "max")
    price = _price(desk, contender)
    rows = [_row(tau, sure >= tau, never, always, price) for tau in paper.THRESHOLDS]
    taken = np.where(sure >= paper.TAU, True, False)
    return {
        "reranker": contender.name,
        "fused": "XGBoost" if "xgboost" in before.get("fusion", {}).get("alphas", {}) else f"α = {_FIXED}",
        "questions": len(half.queries),
        "thresholds": rows,
        "always": _row(np.inf, np.full(len(sure), False), never, always, price),
        "never": float(never["T1EM"].mean()),
        "gain_p": compare_all(np.stack([always["T1EM"], never["T1EM"]], axis=1), clusters=clusters_of(half.queries))[
            0
        ].p,
        "tau": _calibrated(rows),
        "tau_tested": _tested(sure, never["T5EM"]),
        "ids": [query.id for query in half.queries],
        "ladder": {key: np.where(taken, never[key], always[key]).round(6).tolist() for key in paper.KEY},
        "problems": [f"{contender.name}: {step.fell_back} questions kept their order ({step.why})"]
        if step.fell_back
        else [],
    }


def _asked(scored: Scored, half: Half, before: Before, sample: bool) -> tuple[Half, Floats]:
    """The questions to rerank with their α: a sample if it takes long."""
    known = before.get("fusion", {}).get("alphas", {}).get("xgboost")
    alphas = np.full(len(half.queries), _FIXED) if known is None else np.array(known, dtype=np.float64)
    if not sample:
        return half, alphas
    drawn = {query.id for query in sampled(scored.plan.exam, _MAX_RERANKED, _SEED).queries}
    rows = np.array([i for i, query in enumerate(half.queries) if query.id in drawn], dtype=np.int64)
    return half.taken(rows), alphas[rows]


def _price(desk: RunContext, contender: Contender) -> tuple[float, float]:
    """Median seconds and mean dollars to rerank a question."""
    timing = desk.bench.latency(desk.plan([contender], ["nDCG@10"]))[0]
    stage = timing.stages[name_of(contender.pipeline.rerank[0])]
    return stage.p50 / 1000, stage.dollars or 0.0


def _row(
    tau: float, skipped: Any, never: Mapping[str, Floats], always: Mapping[str, Floats], price: tuple[float, float]
) -> dict[str, Any]:
    """What happens if the questions in `skipped` are not reranked."""
    share = float(1 - skipped.mean())
    count, successes = int(skipped.sum()), int(never["T5EM"][skipped].sum())
    interval = wilson(successes, count)
    return {
        "tau": None if np.isinf(tau) else tau,
        "reranked": share,
        "T1EM": float(np.where(skipped, never["T1EM"], always["T1EM"]).mean()),
        "seconds": share * price[0],
        "dollars": share * price[1],
        "skipped": count,
        "T5EM": successes / count if count else None,
        "low": interval.low if count else None,
        "high": interval.high if count else None,
    }


def _calibrated(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """τ* of the paper (eq. 32): the smallest threshold whose lower bound is at least β, with 30 questions or more."""
    kept = [row["tau"] for row in rows if row["skipped"] >= MIN_QUESTIONS and row["low"] >= paper.BETA]
    return min(kept, default=None)


def _tested(sure: Floats, success: Floats) -> float | None:
    """τ* by fixed-sequence testing, which keeps its promise although many thresholds are looked at."""
    threshold = chosen(thresholds(sure, success > 0), paper.BETA)
    return None if threshold is None or not np.isfinite(threshold.below) else float(threshold.below)
