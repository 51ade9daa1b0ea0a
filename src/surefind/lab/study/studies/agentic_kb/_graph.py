"""The second stage: no graph, a graph on the best hierarchical layout, a graph on agentic context.

As in the paper, a model reads entities and relations, and names the entities of a question. Edges are the relations
that it read, from the first entity to the second; every relation is followed for two hops (eqs. 5 to 10). On agentic
context the model reads the context of a passage as well. Rows of our own need no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from surefind.lab.bench.plan import Contender
from surefind.lab.study.desk import RunContext
from surefind.lab.study.scores import best_of, summary
from surefind.lab.study.stage import Before
from surefind.lab.study.studies.agentic_kb import _paper as paper
from surefind.lab.study.studies.agentic_kb._groups import by_row, groups_of
from surefind.lab.study.studies.agentic_kb._layouts import layout_of

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


def contenders(desk: RunContext, before: Before) -> list[Contender]:
    return [
        desk.contender(name, pipeline, layout_of(desk, layout) + (" + headings" if name == HEADED else ""))
        for name, (pipeline, layout) in _ROWS.items()
    ]


def measure(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    scored = desk.score(allowed, paper.WIDE)
    rows = by_row(scored.scores, [contender.name for contender in scored.plan.contenders])
    summed = summary(scored, desk.latency(scored))
    graphs = [name for name in ROWS if name.startswith("Graph")]
    best = best_of(summed, graphs, "T1EM") or PHRASES
    return {
        **summed,
        "groups": groups_of([query.family for query in scored.plan.exam.queries], rows),
        "best": best,
        "ids": [query.id for query in scored.plan.exam.queries],
        "ladder": {key: rows[best][key].round(6).tolist() for key in paper.KEY},
    }
