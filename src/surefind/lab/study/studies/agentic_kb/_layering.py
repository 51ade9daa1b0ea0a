"""The first stage: the grid of layouts, ranked by vectors as in the paper and by the hybrid, with what they cost.

The second stage: no graph, a graph on the best hierarchical layout, a graph on agentic context.

As in the paper, a model reads entities and relations, and names the entities of a question. Edges are the relations
that it read, from the first entity to the second; every relation is followed for two hops (eqs. 5 to 10). On agentic
context the model reads the context of a passage as well. Rows of our own need no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from surefind.base.running import collecting
from surefind.lab.bench.engine import OWNER, Scored
from surefind.lab.bench.plan import Contender, on_layout
from surefind.lab.study.context import RunContext
from surefind.lab.study.scores import best_of, summary
from surefind.lab.study.stage import Before
from surefind.lab.study.studies.agentic_kb import _setting as paper
from surefind.lab.study.studies.agentic_kb._setting import LAYOUTS, by_row, groups_of, layout_of

DENSE, HYBRID = "dense", "hybrid"
PIPELINES = {DENSE: "dense", HYBRID: "bm25 + dense >> convex(alpha=0.5, missing=score)"}
_PRICED = 10
"""Documents, about, on which the share of the language model is measured."""


def cuts(context: RunContext, before: Before) -> list[Contender]:
    return [
        context.contender(on_layout(name, ranker), pipeline, layout_of(context, name))
        for name in LAYOUTS
        for ranker, pipeline in PIPELINES.items()
    ]


def cut(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    scored = context.score(allowed, paper.KEY)
    names = [contender.name for contender in scored.plan.contenders]
    rows = by_row(scored.scores, names)
    families = [query.family for query in scored.plan.exam.queries]
    groups = groups_of(families, rows)
    best = context.options.winner or _winner(rows)
    return {
        **summary(scored, context.latency(scored)),
        "groups": groups,
        "winner": best,
        "chosen": bool(context.options.winner),
        "costs": _costs(context, scored),
        "ids": [query.id for query in scored.plan.exam.queries],
        "ladder": {key: values.round(6).tolist() for key, values in rows[on_layout(best, DENSE)].items()},
    }


def _winner(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """The layout whose four key measures, ranked by vectors, have the highest mean; the first of equal ones."""
    means = {
        name: float(np.mean([rows[row][key].mean() for key in paper.KEY]))
        for name in LAYOUTS
        if (row := on_layout(name, DENSE)) in rows
    }
    return max(means, key=lambda name: means[name])


def _costs(context: RunContext, scored: Scored) -> dict[str, dict[str, float]]:
    """Seconds and dollars for a document by the names of layouts, and the share of the language model in them."""
    costs = {}
    for contender in scored.plan.contenders:
        name, ranker = contender.name.rsplit(" | ", 1)
        if ranker == DENSE:
            own = context.bench.ingestion(contender) or 0.0
            asked, dollars = _model_share(context, contender)
            costs[name] = {"seconds": own + asked, "model_seconds": asked, "dollars": dollars}
    return costs


def _model_share(context: RunContext, contender: Contender) -> tuple[float, float]:
    """Seconds and dollars of the model for a document. The answers are cached, with what they took and cost."""
    layout = contender.layout
    if layout is None or not layout.asks_llm:
        return 0.0, 0.0
    documents = context.bench.reader(contender).documents(OWNER)
    taken = documents[:: max(1, len(documents) // _PRICED)]
    with collecting() as collected:
        for document in taken:
            layout.cut(document, context.services)
    return collected.waited / len(taken), collected.dollars / len(taken)


_ALL_EDGES = "hops=2, fan=null, pool=null"
_READ = "extract=llm(temperature=0.2), entities=llm_alone, edges=directed, temperature=0.2"
_BY_MODEL = f"graph_local({_ALL_EDGES}, {_READ})"
_WITH_CONTEXT = f"graph_local({_ALL_EDGES}, {_READ}, context=true)"
_BY_PHRASES = f"graph_local({_ALL_EDGES})"
PLAIN = "Hierarchical (no graph, ours)"
PHRASES = "Graph of phrases + Hierarchical (ours)"
HEADED = "Graph of phrases + headings (ours)"
_ROWS = {
    paper.NO_GRAPH: ("dense", paper.AGENTIC_1),
    paper.ON_BASE: (_BY_MODEL, paper.BASE),
    paper.ON_AGENTIC: (_WITH_CONTEXT, paper.AGENTIC_1),
    PLAIN: ("dense", paper.BASE),
    PHRASES: (_BY_PHRASES, paper.BASE),
    HEADED: (_BY_PHRASES, paper.BASE),
}
ROWS = tuple(_ROWS)


def links(context: RunContext, before: Before) -> list[Contender]:
    return [
        context.contender(name, pipeline, layout_of(context, layout) + (" + headings" if name == HEADED else ""))
        for name, (pipeline, layout) in _ROWS.items()
    ]


def link(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    scored = context.score(allowed, paper.WIDE)
    rows = by_row(scored.scores, [contender.name for contender in scored.plan.contenders])
    summed = summary(scored, context.latency(scored))
    graphs = [name for name in ROWS if name.startswith("Graph")]
    best = best_of(summed, graphs, "T1EM") or PHRASES
    return {
        **summed,
        "groups": groups_of([query.family for query in scored.plan.exam.queries], rows),
        "best": best,
        "ids": [query.id for query in scored.plan.exam.queries],
        "ladder": {key: rows[best][key].round(6).tolist() for key in paper.KEY},
    }
