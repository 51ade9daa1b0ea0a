"""Estimates the LLM calls of a plan before it starts, by the estimates of its stages."""

from __future__ import annotations

from surefind.abilities import asks_llm, paid_calls
from surefind.bench.plan import Contender, Plan
from surefind.fitness.kinds import Need, needs_of
from surefind.kb import KnowledgeBase
from surefind.llm.prices import tokens
from surefind.prompts.values import Calls, Workload
from surefind.write.quote import paid_extractor


def llm_calls(kb: KnowledgeBase, plan: Plan) -> list[Calls]:
    """The estimated calls of each stage; an upper bound, since cached answers are free. Layouts that are already built
    cost nothing."""
    stages = {path: stage for contender in plan.contenders for path, stage in _stages(kb, contender)}
    if not asks_llm(stages.values()):
        return []
    work = _workload(kb, len(plan.exam.queries))
    return [calls for stage in stages.values() for calls in paid_calls(stage, work)]


def _stages(kb: KnowledgeBase, contender: Contender) -> list[tuple[str, object]]:
    """Each stage with the path of stages before it. The same reranker after other candidates makes new calls, so the
    path tells the two apart."""
    layout, pipeline = contender.layout, contender.pipeline
    before = str(layout or "")
    stages: list[tuple[str, object]] = []
    if layout is not None and not kb.has_cut(layout):
        stages += [(f"{before} {stage}", stage) for stage in (layout.chunk, *layout.enrich)]
    for retriever in pipeline.retrieve:
        stages.append((f"{before} {retriever}", retriever))
        reader = paid_extractor(retriever)
        if reader and kb.missing([retriever], layout):
            stages.append((f"{before} {reader}", reader))
    path = " + ".join([before, *map(str, pipeline.retrieve)])
    for later in (pipeline.fuse, *pipeline.rerank):
        path = f"{path} >> {later}"
        stages.append((path, later))
    return stages


def plan_needs(kb: KnowledgeBase, plan: Plan) -> list[Need]:
    """What the stages of a plan need a language model for."""
    return needs_of(stage for contender in plan.contenders for _, stage in _stages(kb, contender))


def _workload(kb: KnowledgeBase, queries: int) -> Workload:
    spans = kb.reader().view.spans()
    chunks, documents = len(spans.ids), max(1, len(spans.names))
    text = tokens(int((spans.own_ends - spans.own_starts).sum()))
    return Workload(queries, documents, chunks, text // documents, text // max(1, chunks))
