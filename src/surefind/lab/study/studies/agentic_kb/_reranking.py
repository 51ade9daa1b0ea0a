"""The fourth stage: the fused ranking is reranked if its highest score is below τ (eqs. 28 to 32).

Every question is reranked once; a threshold then only decides whose new order counts. Without a language model, a
cross-encoder takes its place on a sample of the questions.

The last stage: what each stage added, on the questions that were reranked, overall and by tag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from surefind.base.abilities import name_of
from surefind.base.types import Floats, Query
from surefind.engine.confidence.signals import confidence
from surefind.lab.bench.engine import OWNER, Scored
from surefind.lab.bench.plan import Contender
from surefind.lab.exam.model import ExamQuery, clusters_of
from surefind.lab.measure.statistics import compare_all, wilson
from surefind.lab.measure.thresholds import MIN_QUESTIONS, chosen, thresholds
from surefind.lab.study.context import RunContext, sampled
from surefind.lab.study.stage import Before, half_of
from surefind.lab.study.studies.agentic_kb import _setting as paper
from surefind.lab.study.studies.agentic_kb._fusion import fused, pipeline
from surefind.lab.study.studies.agentic_kb._setting import Scorer, groups_of, layout_of, winner
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


def contenders(context: RunContext, before: Before) -> list[Contender]:
    layout = layout_of(context, winner(context, before))
    return [context.contender(name, f"{pipeline(_FIXED)} >> {text}", layout) for name, text in _RERANKERS.items()]


def measure(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    contender = next((one for one in allowed if one.name == LLM), allowed[-1])
    plain = replace(contender, pipeline=replace(contender.pipeline, rerank=(), name=""))
    scored = context.score([plain], ["nDCG@10"])
    half, alphas = _asked(scored, half_of(context, scored), before, contender.name == STAND_IN)
    ranking = fused(half, alphas)
    step = context.bench.reranking(contender, scored.plan).run(
        contender.pipeline.rerank[0],
        [Query(query.text, query.id) for query in half.queries],
        ranking,
        max(1, ranking.ids.shape[1]),
        partial(context.report, f"Reranking {contender.name}"),
    )
    scorer = Scorer(context, scored, half.queries, _MEASURES)
    never, always = scorer.scores(step.before), scorer.scores(step.after)
    sure = confidence(ranking, [], "max")
    price = _price(context, contender)
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


def _price(context: RunContext, contender: Contender) -> tuple[float, float]:
    """Median seconds and mean dollars to rerank a question."""
    timing = context.bench.latency(context.plan([contender], ["nDCG@10"]))[0]
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


STEPS = {"Agentic": "chunking", "Graph": "graph", "Fusion": "fusion", "Rerank": "reranking"}
"""The steps of the ladder by the stages that measured them."""
_KEYS = ("tags", "tag", "topics", "categories", "category")
"""The fields of a document that hold its tags; without one, its folder is its tag."""
MAX_TAGS = 15
"""Tags that are shown: those with the most documents."""


def climb(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    there = {step: before[stage] for step, stage in STEPS.items() if before.get(stage, {}).get("ladder")}
    ids = before["reranking"]["ids"]
    rows = {step: _scores(result, ids) for step, result in there.items()}
    asked = {query.id: query for query in context.exam.queries}
    queries = [asked[query_id] for query_id in ids]
    tags, counts = _tags(context, queries)
    t1em = {step: {"T1EM": scores["T1EM"]} for step, scores in rows.items()}
    missing = {step: "left out: no model was trained" for step in STEPS if step not in rows}
    return {
        "questions": len(ids),
        "groups": groups_of([query.family for query in queries], rows),
        "tags": [
            {
                "tag": tag,
                "documents": counts[tag],
                "questions": len(places),
                **{step: float(scores["T1EM"][places].mean()) for step, scores in t1em.items()},
            }
            for tag, places in tags.items()
        ],
        "left_out": missing,
    }


def _scores(result: Any, ids: Sequence[str]) -> dict[str, Any]:
    place = {query_id: i for i, query_id in enumerate(result["ids"])}
    rows = [place[query_id] for query_id in ids]
    return {key: np.array(values)[rows] for key, values in result["ladder"].items() if key in paper.KEY}


def _tags(context: RunContext, queries: Sequence[ExamQuery]) -> tuple[dict[str, list[int]], dict[str, int]]:
    """The places of the questions about documents with each tag, and the number of documents of each tag."""
    of_document = {document.id: _of(document.id, document.metadata) for document in context.kb.documents(OWNER)}
    counts: dict[str, int] = {}
    for tags in of_document.values():
        for tag in tags:
            counts[tag] = counts.get(tag, 0) + 1
    places: dict[str, list[int]] = {}
    for i, query in enumerate(queries):
        gold = {judgment.document for judgment in query.judgments if judgment.is_answer}
        for tag in sorted({tag for query_id in gold for tag in of_document.get(query_id, ())}):
            places.setdefault(tag, []).append(i)
    common = sorted(places, key=lambda tag: (-counts[tag], tag))[:MAX_TAGS]
    return {tag: places[tag] for tag in common}, counts


def _of(query_id: str, metadata: Any) -> list[str]:
    given = next((metadata[key] for key in _KEYS if metadata.get(key)), None)
    if isinstance(given, list | tuple):
        return sorted({str(tag) for tag in given})
    return [str(given)] if given else ["/".join(query_id.split("/")[:-1]) or "(no folder)"]
