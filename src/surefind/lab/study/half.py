"""The questions of a stage with the rankings of their retrievers, to blend them with other weights and to train on."""

from __future__ import annotations

from surefind.base.types import Query
from surefind.engine.search.missing import score_missing
from surefind.lab.bench.engine import OWNER, Scored
from surefind.lab.measure.lss import Labeller
from surefind.lab.study.desk import RunContext
from surefind.lab.train.material import Half, Missing


def half_of(desk: RunContext, scored: Scored, missing: Missing = None) -> Half:
    """The questions with the rankings of the first contender's retrievers. With `missing=score`, every retriever scores
    every candidate."""
    (contender, *_), exam = scored.plan.contenders, scored.plan.exam
    pipeline, layout = contender.pipeline, str(contender.layout or "")
    rankings = tuple(scored.retrieved[layout, str(retriever), pipeline.depth] for retriever in pipeline.retrieve)
    lists = list(rankings)
    if missing == "score":
        queries = [Query(query.text, query.id) for query in exam.queries]
        lists = score_missing(rankings, queries, pipeline.retrieve, scored.view, desk.access)
    documents = {document.id: document.text for document in desk.bench.reader(contender).documents(OWNER)}
    labeller = Labeller(exam.queries, scored.view.spans(), documents)
    places = scored.judges[0].places
    return Half(exam.queries, rankings, tuple(lists), scored.plan.primary, places, labeller, scored.view.parents)
