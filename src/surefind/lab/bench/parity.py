"""Compares a backend with indexes in this process: do both find the same passages for the questions of an exam?

The indexes are built in memory from the passages of the current generation, so nothing on disk changes. Only the
retrievers of the default pipeline are compared: fusion and reranking are the same code for every backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from surefind.base.access import Access
from surefind.base.errors import ExamError
from surefind.base.protocols import OnProgress, Retriever
from surefind.base.types import EVERY, PAD, Query, Rankings
from surefind.engine.search.reader import Searcher
from surefind.engine.store.indexes import each_needed
from surefind.kb import KnowledgeBase
from surefind.lab.bench.engine import places_of
from surefind.lab.bench.report import RunDifference, compare_runs
from surefind.lab.exam.model import Exam, relocate
from surefind.lab.measure.ranks import MEASURES, Judge, Measure

MEASURE = Measure("nDCG", 10)
MIN_OVERLAP = 0.95
MAX_DIFFERENCE = 0.01
_OWNER = Access.owner()


@dataclass(frozen=True, kw_only=True)
class Parity(RunDifference):
    """How closely a backend follows the local indexes of one retriever: `before` is the mean score of the indexes in
    this process, `after` that of the backend."""

    retriever: str
    overlap: float
    """The mean share of the first ten passages that both find."""

    @property
    def close(self) -> bool:
        return self.overlap >= MIN_OVERLAP and abs(self.difference) <= MAX_DIFFERENCE

    def __str__(self) -> str:
        return (
            f"{self.retriever}: overlap of the first ten {self.overlap:.3f}, {MEASURE} {self.after:.4f} "
            f"({self.difference:+.4f}), on {self.questions} questions"
        )


def measure_parity(kb: KnowledgeBase, exam: Exam, report: OnProgress | None = None) -> list[Parity]:
    """Asks an exam with each retriever of the default pipeline, from the backend and from indexes in this process."""
    reader = kb.reader()
    texts = {document.id: document.text for document in reader.documents(_OWNER)}
    moved, _ = relocate(exam, texts)
    if not moved.queries:
        raise ExamError(f"No question of {exam.label} points at a document of the current generation.")
    judge = Judge(moved.queries, places_of(reader.view.spans(), texts))
    queries = [Query(query.text, query.id) for query in moved.queries]
    return [
        _compared(judge, queries, retriever, *_both(kb, reader, retriever, queries, report))
        for retriever in each_needed(kb.pipeline().retrieve)
    ]


def _both(
    kb: KnowledgeBase, reader: Searcher, retriever: Retriever, queries: Sequence[Query], report: OnProgress | None
) -> tuple[Rankings, Rankings]:
    """Returns the rankings of an index in this process, and those of the backend."""
    ids = reader.view.spans().ids
    progress = partial(report, f"Indexing {retriever.name}") if report else None
    index = retriever.build(reader.view.chunks(ids.tolist(), _OWNER), kb.services, None, progress)
    rankings = index.search(retriever, queries, MEASURE.k, EVERY)
    local = replace(rankings, ids=np.where(rankings.ids == PAD, PAD, ids[np.maximum(rankings.ids, 0)]))
    return local, reader.view.search(retriever, queries, MEASURE.k, _OWNER)


def _compared(judge: Judge, queries: Sequence[Query], retriever: Retriever, local: Rankings, here: Rankings) -> Parity:
    before, after = (
        MEASURES[MEASURE.name](judge.gains(rankings, MEASURE.level), MEASURE.k) for rankings in (local, here)
    )
    scores = compare_runs(before[:, None], after[:, None])[0]
    shared = [_overlap(set(local.row(q)[0].tolist()), set(here.row(q)[0].tolist())) for q in range(len(queries))]
    return Parity(retriever=str(retriever), overlap=float(np.mean(shared)), **scores.figures)


def _overlap(one: set[int], other: set[int]) -> float:
    return len(one & other) / max(len(one), len(other), 1) if one or other else 1.0
