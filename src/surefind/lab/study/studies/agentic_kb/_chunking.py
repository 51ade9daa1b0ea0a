"""The first stage: the grid of layouts, ranked by vectors as in the paper and by the hybrid, with what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from surefind.base.running.notes import collecting
from surefind.lab.bench.engine import OWNER, Scored
from surefind.lab.bench.plan import Contender, on_layout
from surefind.lab.study.desk import RunContext
from surefind.lab.study.scores import summary
from surefind.lab.study.stage import Before
from surefind.lab.study.studies.agentic_kb import _paper as paper
from surefind.lab.study.studies.agentic_kb._groups import by_row, groups_of
from surefind.lab.study.studies.agentic_kb._layouts import LAYOUTS, layout_of

DENSE, HYBRID = "dense", "hybrid"
PIPELINES = {DENSE: "dense", HYBRID: "bm25 + dense >> convex(alpha=0.5, missing=score)"}
_PRICED = 10
"""Documents, about, on which the share of the language model is measured."""


def contenders(desk: RunContext, before: Before) -> list[Contender]:
    return [
        desk.contender(on_layout(name, ranker), pipeline, layout_of(desk, name))
        for name in LAYOUTS
        for ranker, pipeline in PIPELINES.items()
    ]


def measure(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    scored = desk.score(allowed, paper.KEY)
    names = [contender.name for contender in scored.plan.contenders]
    rows = by_row(scored.scores, names)
    families = [query.family for query in scored.plan.exam.queries]
    groups = groups_of(families, rows)
    best = desk.options.winner or _winner(rows)
    return {
        **summary(scored, desk.latency(scored)),
        "groups": groups,
        "winner": best,
        "chosen": bool(desk.options.winner),
        "costs": _costs(desk, scored),
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


def _costs(desk: RunContext, scored: Scored) -> dict[str, dict[str, float]]:
    """Seconds and dollars for a document by the names of layouts, and the share of the language model in them."""
    costs = {}
    for contender in scored.plan.contenders:
        name, ranker = contender.name.rsplit(" | ", 1)
        if ranker == DENSE:
            own = desk.bench.ingestion(contender) or 0.0
            asked, dollars = _model_share(desk, contender)
            costs[name] = {"seconds": own + asked, "model_seconds": asked, "dollars": dollars}
    return costs


def _model_share(desk: RunContext, contender: Contender) -> tuple[float, float]:
    """Seconds and dollars of the model for a document. The answers are cached, with what they took and cost."""
    layout = contender.layout
    if layout is None or not layout.asks_llm:
        return 0.0, 0.0
    documents = desk.bench.reader(contender).documents(OWNER)
    taken = documents[:: max(1, len(documents) // _PRICED)]
    with collecting() as collected:
        for document in taken:
            layout.cut(document, desk.services)
    return collected.waited / len(taken), collected.dollars / len(taken)
