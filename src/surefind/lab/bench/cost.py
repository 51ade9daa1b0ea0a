"""Estimates the time, embeddings, LLM calls and dollars of a benchmark before it starts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surefind.base.abilities import declared
from surefind.base.access import Access
from surefind.base.protocols import Retriever
from surefind.base.types import IdArray, Query
from surefind.engine.llm.quote import quote
from surefind.engine.services import LocalServices
from surefind.engine.store.backend import View
from surefind.engine.store.needs import innermost
from surefind.engine.write.quote import offline
from surefind.lab.bench.engine import OWNER, Bench
from surefind.lab.bench.ingestion import PROBE, seconds_per_character
from surefind.lab.bench.llm_calls import llm_calls
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.exam.model import Exam

_PROBES = 5
"""Queries (or chunks, if an index is missing) that are timed to estimate the time of all of them."""


@dataclass(frozen=True)
class CostEstimate:
    """The estimated cost of a run."""

    queries: int
    configurations: int
    retrievals: int
    cached: int
    embeddings: int
    minutes: float
    llm_calls: int = 0
    dollars: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.configurations} configurations × {self.queries} questions: {self.retrievals} retrieval runs "
            f"({self.cached} from the cache), {self.embeddings} questions to embed, {self.llm_calls} LLM calls, "
            f"${self.dollars:.2f}, about {_duration(self.minutes)}."
        )


def quote_for(bench: Bench, plan: Plan) -> CostEstimate:
    """Estimates the cost of a plan. A layout that is not built yet is timed on a sample of text, not built."""
    jobs = plan.retrievers().values()
    made = [job for job in jobs if bench.kb.has_cut(job[0].layout)]
    keys = {bench.run_key(plan, *job): job for job in made}
    missing = [job for key, job in keys.items() if bench.cache.rankings(key) is None]
    unmade = [job for job in jobs if job not in made]
    # Layouts share the vectors of the questions.
    encoders = {str(r) for _, r in (*missing, *unmade) if r.signal == "dense"}
    embeddings = len(plan.exam.queries) * len(encoders)
    seconds = sum(_seconds(bench.view(contender), r, plan.exam, bench.kb.folder) for contender, r in missing)
    seconds += _seconds_to_make(bench, unmade) + _rerank_seconds(bench, plan)
    runs = len(keys) + len(unmade)
    cached = len(keys) - len(missing)
    llm = quote(bench.kb.services.llm, llm_calls(bench.kb, plan))
    minutes = seconds / 60 + llm.minutes
    size = len(plan.exam.queries), len(plan.contenders), runs, cached, embeddings
    return CostEstimate(*size, minutes, llm.calls, llm.dollars)


def _seconds(view: View, retriever: Retriever, exam: Exam, folder: Path) -> float:
    """Estimated seconds to retrieve for all questions, and to build the index first if it is missing.

    A few questions (or chunks) are timed. LLM calls of a retriever that wraps another one are not included: they are
    estimated as calls.
    """
    retriever = innermost(retriever)
    if view.missing([retriever]):
        ids = view.spans().ids
        sample = view.chunks(ids[:: max(1, len(ids) // _PROBES)][:_PROBES].tolist(), OWNER)
        timed = offline(retriever)
        timed.build(sample, LocalServices(folder=folder))  # not timed: compiles kernels and loads models
        started = time.perf_counter()
        timed.build(sample, LocalServices(folder=folder))
        return (time.perf_counter() - started) / max(1, len(sample)) * (len(view) + len(exam.queries))
    few = [Query(query.text) for query in exam.queries[:: max(1, len(exam.queries) // _PROBES)][:_PROBES]]
    view.ready([retriever])
    started = time.perf_counter()
    for query in few:
        view.search(retriever, [query], 10, OWNER)
    return (time.perf_counter() - started) / len(few) * len(exam.queries)


def _rerank_seconds(bench: Bench, plan: Plan) -> float:
    """Estimated seconds of the rerankers that run on this machine; an upper bound, since scored pairs are cached."""
    if not plan.exam.queries:
        return 0.0
    work = {
        (str(contender.layout), contender.pipeline.path, declared(reranker).work): (contender, reranker)
        for contender in plan.contenders
        for reranker in contender.pipeline.rerank
        if declared(reranker).runs_here
        and bench.kb.has_cut(contender.layout)
        and not bench.cache.data(bench.reranked_key(contender, plan))
    }
    probe = Query(plan.exam.queries[0].text)
    return len(plan.exam.queries) * sum(
        bench.reranking(contender, plan).seconds(reranker, probe, _readable(bench.view(contender), plan.access))
        for contender, reranker in work.values()
    )


def _readable(view: View, access: Access) -> IdArray:
    """The passages that the plan's audience may read; a reranker gets no others."""
    spans, admitted = view.spans(), view.admitted(access)
    return np.asarray(spans.ids[np.array([name in admitted for name in spans.names], np.bool_)[spans.documents]])


def _seconds_to_make(bench: Bench, jobs: Sequence[tuple[Contender, Retriever]]) -> float:
    """Estimated seconds to cut and index the documents in the layouts of these jobs."""
    documents = bench.kb.documents(OWNER) if jobs else []
    characters = sum(len(document.text) for document in documents)
    layouts = {str(contender.layout): contender.layout for contender, _ in jobs if contender.layout}
    rates = [
        seconds_per_character(documents, layout, [r for c, r in jobs if str(c.layout) == spec], bench.kb.folder, PROBE)
        for spec, layout in layouts.items()
    ]
    return sum(rates) * characters


def _duration(minutes: float) -> str:
    return f"{minutes * 60:.0f} s" if minutes < 2 else f"{minutes:.0f} minutes"
