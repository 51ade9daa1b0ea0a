"""Estimates the LLM calls of a plan before it starts, by the estimates of its stages."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from surefind.base.abilities import asks_llm, declared, paid_calls
from surefind.base.prompts.values import Calls, Workload
from surefind.engine.llm.prices import tokens
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.write.quote import paid_extractor
from surefind.kb import KnowledgeBase
from surefind.lab.bench.plan import Contender, Plan
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
