"""Builds the report of a benchmark as plain data, which the terminal table, the files and the HTML page show."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from surefind import __version__
from surefind.bench.drawn import about_parts
from surefind.bench.engine import Outcome
from surefind.bench.graph_value import graph_value
from surefind.bench.left_out import about_left_out
from surefind.bench.llm_value import calls_of, cost_of, llm_value
from surefind.bench.movement import Movement
from surefind.bench.plan import short
from surefind.bench.recommendation import Recommendation, recommend
from surefind.bench.reranking import Step
from surefind.bench.sweep import alpha_sweep
from surefind.bench.verdict import decide
from surefind.exam.clusters import clusters_of
from surefind.exam.leakage import BANDS, band, leakage
from surefind.exam.split import held_out
from surefind.measure.clusters import Clusters
from surefind.measure.gains import Judge
from surefind.measure.statistics import Interval, bootstrap, compare_all, letters
from surefind.running.cores import usable_cores
from surefind.types import Floats

_PACKAGES = ("numpy", "numba", "onnxruntime", "tokenizers", "surefind-models")
_SAMPLED = 300
"""Questions whose hits the report keeps, to look at on the HTML page."""
_HITS = 5
"""Hits kept for each of these questions and each configuration."""


def build_report(
    outcome: Outcome, documents: Mapping[str, str], titles: Mapping[str, str], command: str
) -> dict[str, Any]:
    """The report of a run. `documents` maps document ids to texts, `titles` maps them to titles."""
    plan, exam = outcome.plan, outcome.plan.exam
    names = [contender.name for contender in plan.contenders]
    primary = str(plan.primary)
    out = np.array(held_out(exam.queries))
    clusters = clusters_of(exam.queries)
    intervals = _intervals(outcome.scores, clusters)
    halves = {name: scores[out] for name, scores in outcome.scores.items()}
    held = _intervals(halves, clusters[out]) if out.any() else intervals
    comparisons = compare_all(outcome.scores[primary], clusters=clusters)
    means = outcome.scores[primary].mean(axis=0).tolist()
    marks = letters(means, comparisons)
    p50 = [timing.get("p50") for timing in outcome.latency]
    scores = outcome.scores[primary]
    answered, asked = outcome.answered[primary], outcome.asked
    found = _recommendation(outcome, primary)
    verdict = decide(
        names,
        primary,
        scores,
        out.tolist(),
        comparisons,
        intervals[primary],
        held[primary],
        outcome.latency,
        found,
        whole=outcome.whole,
        reranked=[bool(contender.pipeline.rerank) for contender in plan.contenders],
    )
    families = _groups(outcome, [query.family for query in exam.queries])
    bands = _groups(outcome, [band(query) for query in exam.queries], order=BANDS)
    known = leakage(exam)
    assessments = [
        about_parts(plan, asked, outcome.latency),
        about_left_out(plan),
        llm_value(names, primary, means, outcome.latency, comparisons),
        graph_value(plan.contenders, primary, means, comparisons, p50),
    ]
    return {
        "surefind": __version__,
        "created": datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": command,
        "audience": str(plan.access),
        "groups": sorted(plan.access.groups),
        "environment": environment(),
        "exam": {
            "name": exam.name, "version": exam.version, "fingerprint": plan.exam.fingerprint,
            "queries": len(exam.queries), "families": exam.families(), **outcome.left_out.facts,
        },
        "corpus": {
            "documents": len(outcome.view.admitted(plan.access)),
            "withheld": outcome.view.withheld(plan.access), "chunks": len(outcome.view),
            "layout": outcome.view.layout, "fingerprint": outcome.view.fingerprint,
        },
        "measures": [str(measure) for measure in plan.measures],
        "primary": primary,
        "confidence": 0.95,
        "compares_layouts": plan.compares_layouts,
        "rows": [
            {
                "name": name,
                "aliases": list(contender.aliases),
                "pipeline": contender.pipeline.name or short(contender.pipeline),
                "spec": str(contender.pipeline),
                "measures": {m: asdict(intervals[m][i]) for m in intervals},
                "letters": marks[i],
                "latency_ms": outcome.latency[i],
                "calls": calls_of(outcome.latency[i]),
                "cost_per_1k": cost_of(outcome.latency[i]),
                "families": families[i],
                "bands": bands[i],
                "index_bytes": outcome.index_bytes[i],
                "reranking": _moved(outcome, i, titles),
                "layout": outcome.views[i].layout,
                "chunks": len(outcome.views[i]),
                "ingest_s_per_doc": outcome.ingestion[i],
                "held_out": {m: asdict(held[m][i]) for m in held},
                "asked": int(asked[:, i].sum()),
                "scores": [None if math.isnan(one) else round(one, 4) for one in answered[:, i].tolist()],
            }
            for i, (name, contender) in enumerate(zip(names, plan.contenders, strict=True))
        ],
        "query_ids": [query.id for query in exam.queries],
        "query_texts": [query.text for query in exam.queries],
        "query_documents": [
            sorted({one.document for one in (*query.judgments, *query.segments)}) for query in exam.queries
        ],
        "query_clusters": clusters.tolist(),
        "winner": names[verdict.winner],
        "ties": [names[i] for i in verdict.ties],
        "recommended": names[verdict.recommended],
        "recommendation": asdict(found) if found else None,
        "verdict": "\n".join(filter(None, [verdict.text, *assessments])),
        "comparisons": [{**asdict(c), "a": names[c.a], "b": names[c.b]} for c in comparisons],
        "leakage": asdict(known) if known else None,
        "alpha_sweep": alpha_sweep(outcome, documents),
        "memory_bytes": outcome.memory_bytes,
        "problems": [*outcome.problems, *step_problems(names, outcome.steps)],
        **_samples(outcome, titles),
    }  # fmt: skip


def _recommendation(outcome: Outcome, primary: str) -> Recommendation | None:
    """What is best for real questions; None if there is nothing to choose from."""
    contenders = outcome.plan.contenders
    if len(contenders) < 2:
        return None
    specs = [str(contender.pipeline) for contender in contenders]
    layouts = [view.layout for view in outcome.views]
    return recommend(specs, outcome.scores[primary], outcome.plan.exam.queries, layouts, primary)


def _moved(outcome: Outcome, i: int, titles: Mapping[str, str]) -> list[dict[str, Any]]:
    """What the rerankers of a contender changed, on the questions that it was asked."""
    plan, judge = outcome.plan, outcome.judges[i]
    queries = [query for query, was in zip(plan.exam.queries, outcome.asked[:, i].tolist(), strict=True) if was]
    if len(queries) < len(plan.exam.queries):
        judge = Judge(queries, judge.places)
    movement = Movement(queries, judge, plan.primary, outcome.views[i].spans(), titles)
    return [movement.of(step) for step in outcome.steps[i]]


def step_problems(names: Sequence[str], steps: Sequence[Sequence[Step]]) -> list[str]:
    """Says for which rerankers the model failed, or another model stood in."""
    every = [(name, step) for name, made in zip(names, steps, strict=True) for step in made]
    failed = [
        f"{name}: {step.name} failed for {step.fell_back} questions, which kept the ranking before it ({step.why})"
        for name, step in every
        if step.fell_back
    ]
    others = [
        f"{name}: {step.name} got {step.stood_in} answers from the fallback, not from its own model ({step.why})"
        for name, step in every
        if step.stood_in
    ]
    return failed + others


def environment() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": usable_cores(),
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _intervals(scores: Mapping[str, Floats], clusters: Clusters) -> dict[str, list[Interval]]:
    """Bootstrap intervals of all measures, with the same resamples for each."""
    names = list(scores)
    stacked = np.concatenate([scores[name] for name in names], axis=1)
    columns = stacked.shape[1] // len(names)
    found = [_within(interval) for interval in bootstrap(stacked, clusters=clusters)]
    return {name: found[i * columns : (i + 1) * columns] for i, name in enumerate(names)}


def _within(interval: Interval) -> Interval:
    """Returns an interval within 0 and 1; an estimate from a part of the questions may reach beyond."""
    return Interval(*(min(1.0, max(0.0, value)) for value in (interval.mean, interval.low, interval.high)))


def _groups(
    outcome: Outcome, labels: Sequence[str | None], order: Sequence[str] = ()
) -> list[dict[str, dict[str, float]]]:
    """For each contender, the mean of every measure within each group of queries; empty if there is only one group, or
    if the contender was asked too few questions."""
    groups = [label for label in order or sorted({label for label in labels if label}) if label in labels]
    if len(groups) < 2:
        return [{} for _ in outcome.plan.contenders]
    members = {group: np.array([label == group for label in labels]) for group in groups}
    means = {group: {m: s[mask].mean(axis=0) for m, s in outcome.scores.items()} for group, mask in members.items()}
    whole = outcome.whole
    return [
        {group: {m: round(float(values[i]), 5) for m, values in means[group].items()} for group in groups if whole[i]}
        for i in range(len(outcome.plan.contenders))
    ]


def _samples(outcome: Outcome, titles: Mapping[str, str]) -> dict[str, Any]:
    """The queries on which the contenders differ most, with the hits of each: examples to read, not for statistics.

    Relevance of a hit, and the rank of the first relevant hit, are at the level of the primary measure.
    """
    primary = outcome.plan.primary
    scores = outcome.answered[str(primary)]
    order = np.argsort(-np.nanstd(scores, axis=1), kind="stable")[:_SAMPLED].tolist()
    level = "chunk" if primary.of_spans else primary.level
    pairs = list(zip(outcome.rankings, outcome.judges, strict=True))
    gains = [judge.gains(ranking, level).gains for ranking, judge in pairs]
    numbers: dict[tuple[int, int], int] = {}
    owner = [outcome.views.index(view) for view in outcome.views]  # the first contender of each layout
    queries = []
    for q in order:
        query = outcome.plan.exam.queries[q]
        results = []
        for c, (ranking, judge) in enumerate(pairs):
            ids = ranking.row(q)[0][:_HITS].tolist()
            first = np.flatnonzero(gains[c][q] > 0)
            flags = [int(judge.relevant(q, chunk_id, level)) for chunk_id in ids]
            shown = [numbers.setdefault((owner[c], chunk_id), len(numbers)) for chunk_id in ids]
            score = None if np.isnan(scores[q, c]) else round(float(scores[q, c]), 4)
            results.append([score, int(first[0]) + 1 if len(first) else None, shown, flags])
        gold = [
            {"document": j.document, "title": titles.get(j.document, ""), "text": j.quote} for j in query.judgments[:3]
        ]
        row = {"id": query.id, "text": query.text, "family": query.family, "overlap": query.overlap}
        queries.append({**row, "gold": gold, "results": results})
    chunks = []
    for c, chunk_id in numbers:
        (passage,) = outcome.views[c].passages([chunk_id], outcome.plan.access)
        chunk = passage.chunk
        place = {"document": chunk.document, "title": passage.title, "headings": list(chunk.headings)}
        chunks.append({**place, "text": chunk.text[:240]})
    return {"queries": queries, "chunks": chunks}
