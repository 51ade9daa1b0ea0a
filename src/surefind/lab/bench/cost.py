"""Estimates the time, embeddings, LLM calls and dollars of a benchmark before it starts.

Estimates the LLM calls of a plan before it starts, by the estimates of its stages.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from surefind.base.abilities import asks_llm, declared, paid_calls
from surefind.base.access import Access
from surefind.base.prompts.values import Calls, Workload
from surefind.base.protocols import Retriever
from surefind.base.types import IdArray, Query
from surefind.engine.llm.models import quote
from surefind.engine.llm.prices import tokens
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.services import LocalServices
from surefind.engine.store.backend import View
from surefind.engine.store.indexes import innermost, offline, paid_extractor
from surefind.kb import KnowledgeBase
from surefind.lab.bench.engine import OWNER, PROBE, Bench, seconds_per_character
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.exam.model import Exam
from surefind.lab.fitness.kinds import Need, needs_of


def llm_calls(kb: KnowledgeBase, plan: Plan) -> list[Calls]:
    """The estimated calls of each stage; an upper bound, since cached answers are free. Layouts that are already built
    cost nothing."""
    stages = {path: stage for contender in plan.contenders for path, stage in _stages(kb, contender)}
    if not asks_llm(stages.values()):
        return []
    more = (again(contender.pipeline, str(contender.layout or "")) for contender in plan.contenders)
    return calls_of(stages, itertools.chain.from_iterable(more), _workload(kb, len(plan.exam.queries)))


def calls_of(stages: Mapping[str, object], again: Iterable[tuple[str, str, int]], work: Workload) -> list[Calls]:
    """The most calls of stages, by their paths. `again` says which of them run for further queries: the path of the
    stage, the path of the reranker that asks these queries, and how many it asks for each query of the work."""
    more: dict[str, int] = defaultdict(int)
    for path, _, searches in set(again):
        more[path] += searches
    return [
        calls
        for path, stage in stages.items()
        for calls in paid_calls(stage, replace(work, queries=work.queries * (1 + more[path])))
    ]


def stages_of(pipeline: Pipeline, before: str = "") -> Iterator[tuple[str, object]]:
    """Each stage with the path of stages before it. The same reranker after other candidates makes new calls, so the
    path tells the two apart."""
    yield from ((f"{before} {retriever}", retriever) for retriever in pipeline.retrieve)
    path = " + ".join([before, *map(str, pipeline.retrieve)])
    for later in (pipeline.fuse, *pipeline.rerank):
        path = f"{path} >> {later}"
        yield path, later


def again(pipeline: Pipeline, before: str = "") -> Iterator[tuple[str, str, int]]:
    """The stages before the rerankers, as in `calls_of`, for each reranker that searches again."""
    paths = list(stages_of(pipeline, before))
    searched = paths[: len(pipeline.retrieve) + 1]
    for path, reranker in paths[len(searched) :]:
        if searches := declared(reranker).more_searches:
            yield from ((earlier, path, searches) for earlier, _ in searched)


def _stages(kb: KnowledgeBase, contender: Contender) -> list[tuple[str, object]]:
    """The stages of a contender, with those that make its layout and its graph, if they are missing."""
    layout, pipeline = contender.layout, contender.pipeline
    before = str(layout or "")
    stages: list[tuple[str, object]] = []
    if layout is not None and not kb.has_cut(layout):
        stages += [(f"{before} {stage}", stage) for stage in (layout.chunk, *layout.enrich)]
    for retriever in pipeline.retrieve:
        reader = paid_extractor(retriever)
        if reader and kb.missing([retriever], layout):
            stages.append((f"{before} {reader}", reader))
    return [*stages, *stages_of(pipeline, before)]


def plan_needs(kb: KnowledgeBase, plan: Plan) -> list[Need]:
    """What the stages of a plan need a language model for."""
    return needs_of(stage for contender in plan.contenders for _, stage in _stages(kb, contender))


def _workload(kb: KnowledgeBase, queries: int) -> Workload:
    spans = kb.reader().view.spans()
    chunks, documents = len(spans.ids), max(1, len(spans.names))
    text = tokens(int((spans.own_ends - spans.own_starts).sum()))
    return Workload(queries, documents, chunks, text // documents, text // max(1, chunks))


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
