"""`cascade`: what each stage of a cascade adds: three retrievers, fusion, a cross-encoder, a language model.

Component-Level Evaluation of Cascaded Retrieval and Reranking in RAG (FiQA, SciFact, NFCorpus, 100 questions each). As
many are asked here. The cross-encoder reads 100 passages of each, which takes about 3 seconds on two cores: ask fewer
with `--questions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from surefind.base.disk.sealed import to_json
from surefind.engine.fuse.llm_weights import rule_weights
from surefind.engine.retrieve.entity_overlap import EntityOverlap
from surefind.engine.retrieve.sparse import Sparse
from surefind.lab.bench.plan import Contender
from surefind.lab.bench.reranking import Movement
from surefind.lab.study.context import RunContext, sampled
from surefind.lab.study.scores import mean, plain_row, row_of, summary
from surefind.lab.study.stage import Before, Study, StudyPart, half_of
from surefind.lab.study.tables import Columns, TableLine, load_tables, why_left_out
from surefind.lab.study.values import NEEDS_LLM, Cell, Result
from surefind.lab.train.material import simplex

DENSE, BI, TRI, CE, FULL = "Dense Only", "Bi-Modal", "Tri-Modal", "Tri-Modal + CE", "Full Pipeline"
STATIC_ROW, TUNED, DYNAMIC = "Static (0.50, 0.35, 0.15)", "Static (tuned here)", "Dynamic (query alone)"
RULE, INFORMED = "Dynamic by rule (no model)", "Dynamic (with score distributions)"


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
    DENSE: "dense",
    BI: "dense + sparse >> rrf(k=60)",
    TRI: _TRI,
    CE: _CE,
    FULL: f"{_CE} >> llm_listwise(top=10, keep=5, reverse=false, max_tokens={_LLM_TOKENS}, prompt=paper_cascade)",
}
_PARTS = 20
"""The simplex of weights in steps of 0.05."""
_MIN_TUNED, _MAX_TUNED = 30, 100
"""Questions to tune on: at least, and at most."""


# ---------------------------------------------------------------- static weights


def tune(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """Scores every point of the simplex on questions that are not asked later. The retrievers run once."""
    rest = context.collection.rest
    there = 0 if rest is None else len(rest.queries)
    if rest is None or there < _MIN_TUNED:
        why = (
            f"left out: {there} questions are left to tune on, and {_MIN_TUNED} are needed; ask fewer with --questions"
        )
        return {"left_out": {TUNED: why}}
    scored = context.on(sampled(rest, _MAX_TUNED, 42)).score([context.contender("three", f"{_WHOLE} >> rrf")], [NDCG])
    points = simplex(3, _PARTS)
    means = half_of(context, scored, "score").sweep(points, "minmax").mean(axis=0)
    listed = np.column_stack([points.round(2), means.round(5)])
    return {
        "weights": points[int(means.argmax())].round(2).tolist(),
        "points": listed.tolist(),
        "questions": len(scored.plan.exam.queries),
    }


# ---------------------------------------------------------------- fusions on identical candidates


def fusions(context: RunContext, before: Before) -> list[Contender]:
    weights = {STATIC_ROW: STATIC}
    if tuned := before.get("tuning", {}).get("weights"):
        weights[TUNED] = tuple(tuned)
    fusers = {name: f"weighted(weights={list(given)}, missing=score)" for name, given in weights.items()}
    fusers[DYNAMIC] = "llm_weights(mode=query, missing=score, reverse=false, prompt=paper)"
    fusers[INFORMED] = "llm_weights(mode=informed, missing=score, reverse=false)"
    return context.contenders({name: f"{_WHOLE} >> {fuser}" for name, fuser in fusers.items()})


def fuse(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """All fusions of the same candidates, and the paper's rules for when its model fails, which need no model."""
    scored = context.score(allowed, [NDCG])
    summed = summary(scored)
    half = half_of(context, scored, "score")
    rules = np.array([rule_weights(text, [ranking.signal for ranking in half.found]) for text in half.texts])
    scores = half.blended(rules, "minmax")
    spec = "weights (0.30, 0.55, 0.15) for finance and numbers, else (0.55, 0.30, 0.15)"
    by_rule = plain_row(spec, {NDCG: scores}, NDCG, np.array(summed["clusters"]))
    return {
        **summed,
        "rows": {**summed["rows"], RULE: by_rule},
        "left_out": before.get("tuning", {}).get("left_out", {}),
    }


# ---------------------------------------------------------------- ablation


def ablation(context: RunContext, before: Before) -> list[Contender]:
    return context.contenders(PIPELINES)


def ablate(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """The five configurations, and what the rerankers moved."""
    scored = context.score(allowed, MEASURES)
    titles = context.titles()
    movement = Movement(scored.plan.exam.queries, scored.judges[0], scored.plan.primary, scored.view.spans(), titles)
    names = [contender.name for contender in scored.plan.contenders]
    steps = dict(zip(names, scored.steps, strict=True))
    moved = {"cross_encoder": steps.get(CE, ()), "llm": steps.get(FULL, ())[1:]}
    return {
        **summary(scored),
        "setup": _setup(context),
        "moved": {stage: to_json(movement.of(made[0])) for stage, made in moved.items() if made},
    }


def _setup(context: RunContext) -> dict[str, str]:
    """The components that were used, under the names of Table C."""
    encoder = context.options.encoders[0] if context.options.encoders else "minilm"
    words, graph = Sparse(), EntityOverlap()
    return {
        "Dense encoder": f"{encoder} ({context.services.embedder(encoder).dimension}-dim)",
        "Cross-encoder": "the bundled one",
        "LLM reranker": context.services.chat_name(None) if context.options.llm else "",
        "Candidate stages": "Top-100 → Top-10 → Top-5",
        "LLM max_tokens": str(_LLM_TOKENS),
        "RRF constant k": "60",
        "Static weights": ", ".join(f"{name} = {w:.2f}" for name, w in zip(_NAMES, STATIC, strict=True)),
        "BM25 parameters": f"k1 = {words.k1}, b = {words.b}",
        "PageRank alpha": str(graph.damping),
    }


# ---------------------------------------------------------------- latency


def timed(context: RunContext, before: Before) -> list[Contender]:
    weights = f"{_THREE} >> llm_weights(mode=query, reverse=false, prompt=paper)"
    return [context.contender(name, text) for name, text in ((CE, _CE), (FULL, PIPELINES[FULL]))] + [
        context.contender("Weight Assignment", weights)
    ]


def clock(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """The milliseconds of each stage for one question at a time."""
    plan = context.plan(allowed, [NDCG])
    context.bench.build(plan)
    stages = {name: times for timing in context.bench.latency(plan) for name, times in timing.stages.items()}
    return {"stages": to_json(stages)}


__all__ = [
    "PIPELINES",
    "against_static",
    "by_kind",
    "datasets",
    "degraded",
    "grid",
    "kinds",
    "milliseconds",
    "reached",
    "swaps",
    "weights",
    "worst",
]

_HELD = 0.00005
"""A smaller change of a question's score is a rounding error."""
_WORST = 2
"""The most degraded questions that Table VI lists of each collection and stage."""

# ---------------------------------------------------------------- collections


def datasets(columns: Columns, stage: str) -> list[TableLine]:
    """A row for each collection: its documents, passages and questions."""
    results = [(column.name, column.results[stage]) for column in columns]
    return [
        TableLine(name, cells=(*(result.get(key) for key in ("documents", "passages", "questions")), None, None, None))
        for name, result in results
    ]


# ---------------------------------------------------------------- static weights

_POINTS: dict[str, tuple[float, ...]] = {
    "the paper's": STATIC,
    "dense alone": (1.0, 0.0, 0.0),
    "sparse alone": (0.0, 1.0, 0.0),
    "graph alone": (0.0, 0.0, 1.0),
}


def _point(result: Result, row: str) -> Sequence[float]:
    """The weights of a row of the grid, and what they reached; empty if they were not measured."""
    chosen: Sequence[float] = _POINTS[row] if row in _POINTS else result.get("weights") or ()
    wanted = [round(weight, 2) for weight in chosen]
    return next((point for point in result.get("points", []) if point[:3] == wanted), ())


def weights(result: Result, row: str) -> Cell:
    return ", ".join(f"{weight:.2f}" for weight in _point(result, row)[:3]) or None


def reached(result: Result, row: str) -> Cell:
    return next(iter(_point(result, row)[3:]), None)


def against_static(result: Result, row: str) -> Cell:
    """How much a row is above the static weights of the paper."""
    here, static = mean(result, row, "nDCG@10"), mean(result, STATIC_ROW, "nDCG@10")
    return None if row == STATIC_ROW or here is None or static is None else here - static


def grid(columns: Columns) -> list[str]:
    asked = ", ".join(f"{c.name}: {c.results['tuning'].get('questions', 0)}" for c in columns)
    return [
        "Weights of dense, sparse (BM25 and TF-IDF) and graph, from the whole simplex in steps of 0.05 (231 points), "
        f"tuned on questions that the other tables do not ask ({asked}). The paper tuned on the validation questions "
        "of FiQA."
    ]


# ---------------------------------------------------------------- what the rerankers moved

_STAGES = {"Cross-encoder": "cross_encoder", "LLM": "llm"}


def _moved(result: Result, row: str) -> tuple[Mapping[str, Any], str]:
    """What the reranker in a row's name moved, and what the row shows of it."""
    title, what = row.split(": ")
    return result.get("moved", {}).get(_STAGES[title], {}), what


def swaps(result: Result, row: str) -> Cell:
    moved, what = _moved(result, row)
    key, scale = ("swaps", 1) if what == "average swaps" else ("top1_changed", 100)
    return None if key not in moved else moved[key] * scale


def degraded(result: Result, row: str) -> Cell:
    moved, what = _moved(result, row)
    if not moved:
        return None
    worse, words = moved["degraded"], moved["words"]
    if what == "degraded questions":
        return f"{worse} / {moved['queries']}"
    if what == "degraded, with a number":
        return f"{moved['degraded_with_numbers']} / {worse}"
    return f"{'–' if words['degraded'] is None else words['degraded']}, {words['all']}"


def worst(columns: Columns, stage: str) -> list[TableLine]:
    moved = {column.name: column.results[stage].get("moved", {}) for column in columns}
    lines = [
        TableLine(question["text"], cells=(name, title, question["change"], None))
        for name, by_stage in moved.items()
        for key, title in (("llm", "LLM"), ("cross_encoder", "cross-encoder"))
        for question in by_stage.get(key, {}).get("worst", [])[:_WORST]
    ]
    asked = any(by_stage.get("llm") for by_stage in moved.values())
    return lines if asked else [TableLine("LLM", left_out=NEEDS_LLM), *lines]


def kinds(columns: Columns, stage: str) -> list[TableLine]:
    families = dict.fromkeys(kind for c in columns for kind in sorted(c.results[stage].get("families", [])))
    left_out = why_left_out(columns, stage, FULL)
    return [*map(TableLine, families), *([TableLine("LLM", left_out=left_out)] if left_out else [])]


def by_kind(result: Result, kind: str, before: str, after: str) -> Cell:
    """How many questions of a kind a stage degraded and improved."""
    first, second = row_of(result, before), row_of(result, after)
    if first is None or second is None:
        return None
    scores = zip(result["families"], first["scores"], second["scores"], strict=True)
    changes = [b - a for family, a, b in scores if family == kind]
    worse, better = sum(c < -_HELD for c in changes), sum(c > _HELD for c in changes)
    return f"{worse} worse, {better} better of {len(changes)}" if changes else None


# ---------------------------------------------------------------- latency

_NAMED_PARTS = {
    "Weight Assignment": ("llm_weights",),
    "Retrieval": ("dense", "sparse", "entity_overlap", "rrf"),
    "Cross-Encoder": ("cross_encoder",),
    "LLM Reranking": ("llm_listwise",),
}


def milliseconds(result: Result, row: str, of: str) -> Cell:
    """The sum of the means or medians of the stages that a row counts."""
    stages = result.get("stages", {})
    if row not in _NAMED_PARTS:
        return sum(float(milliseconds(result, part, of) or 0.0) for part in _NAMED_PARTS) if stages else None
    times = [stages[name][of] for name in _NAMED_PARTS[row] if name in stages]
    return sum(times) if times else None


_TABLES = load_tables("cascade", globals())
STUDY = Study(
    "The cascade: retrieve, fuse, rerank",
    "Component-Level Evaluation of Cascaded Retrieval and Reranking in RAG: Ablations Across Financial, Biomedical, "
    "and Medical Domains",
    (
        StudyPart("ablation", ablate, _TABLES["ablation"], ablation, version=2),
        StudyPart("tuning", tune, _TABLES["tuning"], version=2),
        StudyPart("fusion", fuse, _TABLES["fusion"], fusions, ("tuning",)),
        StudyPart("latency", clock, _TABLES["latency"], timed, version=2),
    ),
    questions=100,
)
