"""Asks every question of an exam with and without the reranker, and keeps what a threshold is chosen by."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from surefind.base import spec
from surefind.base.errors import ExamError
from surefind.base.protocols import OnProgress, Reranker
from surefind.base.types import Query, Rankings
from surefind.engine.confidence.measures import MEASURED, confidence, features
from surefind.engine.search.passage_source import PipelinePassages
from surefind.engine.search.pipeline import Pipeline
from surefind.kb import KnowledgeBase
from surefind.lab.bench.engine import OWNER, Bench
from surefind.lab.bench.llm_calls import llm_calls
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.calibrate.choice import Evidence
from surefind.lab.exam.clusters import clusters_of
from surefind.lab.exam.model import Exam, ExamQuery
from surefind.lab.measure.names import Measure

_TIMED = 12
"""Questions on which the reranker is timed; the first is not counted, because it loads the model."""


@dataclass(frozen=True, eq=False)
class AskedExam:
    """The questions that still have their documents, and what was found out about them."""

    queries: tuple[ExamQuery, ...]
    evidence: Evidence
    seconds: float
    """Median seconds of the reranker for a question."""
    corpus: str
    dropped: int


def plan_of(pipeline: Pipeline, stage: str, exam: Exam, success: Measure, quality: Measure) -> Plan:
    """The plan with two rows: without the reranker, and with it for every question."""
    if pipeline.rerank:
        names = ", ".join(str(reranker) for reranker in pipeline.rerank)
        raise ExamError(f"The pipeline already reranks ({names}). Name the part before it: --pipeline 'bm25 + dense'.")
    reranker = cast(Reranker, spec.make("rerank", stage))
    always = replace(pipeline, rerank=(reranker,), name="")
    return Plan((Contender("never", pipeline), Contender("always", always)), exam, (success, quality))


def ask(kb: KnowledgeBase, plan: Plan, report: OnProgress | None = None) -> AskedExam:
    never, always = plan.contenders
    scored = Bench(kb, report).score(plan)
    success, quality = (scored.scores[str(measure)] for measure in plan.measures)
    fused = scored.steps[1][0].before
    lists = [scored.retrieved["", str(r), never.pipeline.depth] for r in never.pipeline.retrieve]
    evidence = Evidence(
        {when: confidence(fused, lists, when) for when in MEASURED},
        features(fused, lists),
        success[:, 0] > 0,
        quality[:, 0],
        quality[:, 1],
        clusters_of(scored.plan.exam.queries),
    )
    queries = scored.plan.exam.queries
    seconds = _seconds(kb, always.pipeline, queries, fused)
    return AskedExam(queries, evidence, seconds, scored.view.fingerprint, scored.left_out.total)


def _seconds(kb: KnowledgeBase, pipeline: Pipeline, queries: tuple[ExamQuery, ...], fused: Rankings) -> float:
    """Times a reranker that runs here, one question at a time, as in a search. One that asks a service is timed by its
    own calls (`dollars` has the price)."""
    source = PipelinePassages(pipeline, kb.reader().view, kb.services, OWNER)
    taken = []
    for i in np.unique(np.linspace(0, len(queries) - 1, _TIMED).astype(int)).tolist():
        row = replace(fused, ids=fused.ids[i : i + 1], scores=fused.scores[i : i + 1])
        started = time.perf_counter()
        pipeline.rerank[0].rerank([Query(queries[i].text)], row, source, max(1, row.ids.shape[1]), kb.services)
        taken.append(time.perf_counter() - started)
    return float(np.median(taken[1:] or taken))


def dollars(kb: KnowledgeBase, plan: Plan) -> float:
    """The estimated price of reranking one question; 0 if it asks no language model, or one without a known price."""
    from surefind.engine.llm.quote import quote

    priced = quote(kb.services.llm, llm_calls(kb, plan))
    return priced.dollars / max(1, len(plan.exam.queries))
