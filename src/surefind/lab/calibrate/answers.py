"""Asks every question of an exam, and keeps what its search shows and whether its first hit is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefind.base.protocols import OnProgress
from surefind.base.types import BoolArray, Effort, Floats, Query
from surefind.engine.confidence.signals import Kind
from surefind.engine.search.confidence import signals_of
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.store.backend import View
from surefind.kb import KnowledgeBase
from surefind.lab.bench.engine import OWNER, Bench
from surefind.lab.bench.plan import Plan
from surefind.lab.exam.clusters import clusters_of
from surefind.lab.exam.model import ExamQuery

_BATCH = 16
"""Questions that are searched at a time."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What the searches for the questions of an exam showed."""

    queries: tuple[ExamQuery, ...]
    kind: Kind
    signals: Floats
    """(questions, signals)."""
    success: BoolArray
    """Whether the first hit answers the question."""
    groups: NDArray[np.int64]
    """Equal for questions about the same document."""
    view: View
    dropped: int


def ask_exam(kb: KnowledgeBase, plan: Plan, effort: Effort = "quick", report: OnProgress | None = None) -> Answers:
    """`plan` has one contender and one measure, which says whether the first hit answers a question."""
    scored = Bench(kb, report).score(plan)
    queries, view = scored.plan.exam.queries, scored.view
    asked = [Query(query.text, query.id) for query in queries]
    kind, signals = ask(kb, plan.contenders[0].pipeline, asked, view, effort, report)
    success = scored.scores[str(plan.measures[0])][:, 0] > 0
    return Answers(queries, kind, signals, success, clusters_of(queries), view, scored.left_out.total)


def ask(
    kb: KnowledgeBase,
    pipeline: Pipeline,
    queries: Sequence[Query],
    view: View,
    effort: Effort = "quick",
    report: OnProgress | None = None,
) -> tuple[Kind, Floats]:
    """Returns the signals of searches for these queries."""
    measured = []
    for at in range(0, len(queries), _BATCH):
        if report:
            report("Searching", at, len(queries))
        some = queries[at : at + _BATCH]
        run = pipeline.run(some, 1, view, kb.services, OWNER)
        measured.append(signals_of(run, some, pipeline, view, OWNER, effort))
    return measured[0][0], np.concatenate([values for _, values in measured])
