"""Asks every question of an exam twice: of all documents, and of all but those that answer it.

The second time the question has no answer, so whatever comes first is wrong. A question without an answer that is made
like this is about the subject of the documents, as those of people are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from surefind.bench.engine import OWNER, Bench
from surefind.bench.plan import Plan
from surefind.calibrate.without import Without
from surefind.confidence.signals import Kind
from surefind.exam.clusters import clusters_of
from surefind.exam.model import ExamQuery
from surefind.kb import KnowledgeBase
from surefind.protocols import OnProgress
from surefind.search.pipeline import Pipeline
from surefind.search.sure import signals_of
from surefind.store.backend import View
from surefind.types import BoolArray, Effort, Floats, Query

_BATCH = 16
"""Questions that are searched at a time."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What the searches for the questions of an exam showed, first with an answer in the documents, then without."""

    queries: tuple[ExamQuery, ...]
    kind: Kind
    signals: Floats
    """(2 · questions, signals)."""
    success: BoolArray
    """Whether the first hit answers the question; never in the second half."""
    groups: NDArray[np.int64]
    """Equal for questions about the same document, and for a question with and without its answer."""
    view: View
    dropped: int


def ask_twice(kb: KnowledgeBase, plan: Plan, effort: Effort = "quick", report: OnProgress | None = None) -> Answers:
    """`plan` has one contender and one measure, which says whether the first hit answers a question."""
    bench = Bench(kb, report)
    scored = bench.score(plan)
    queries, view, pipeline = scored.plan.exam.queries, scored.view, plan.contenders[0].pipeline
    asked = [Query(query.text, query.id) for query in queries]
    kind, there = ask(kb, pipeline, asked, view, effort, report)
    gone = {query.id: frozenset(j.document for j in query.judgments if j.grade > 0) for query in queries}
    _, away = ask(kb, pipeline, asked, cast(View, Without(view, gone)), effort, report)
    success = scored.scores[str(plan.measures[0])][:, 0] > 0
    groups = clusters_of(queries)
    return Answers(
        queries,
        kind,
        np.concatenate([there, away]),
        np.concatenate([success, np.zeros(len(success), np.bool_)]),
        np.concatenate([groups, groups]),
        view,
        scored.dropped,
    )


def ask(
    kb: KnowledgeBase,
    pipeline: Pipeline,
    queries: Sequence[Query],
    view: View,
    effort: Effort = "quick",
    report: OnProgress | None = None,
) -> tuple[Kind, Floats]:
    """Returns the signals of searches for these queries."""
    found = []
    for at in range(0, len(queries), _BATCH):
        if report:
            report("Searching with and without the answers", at, len(queries))
        some = queries[at : at + _BATCH]
        run = pipeline.run(some, 1, view, kb.services, OWNER)
        found.append(signals_of(run, some, pipeline, view, OWNER, effort))
    return found[0][0], np.concatenate([values for _, values in found])
