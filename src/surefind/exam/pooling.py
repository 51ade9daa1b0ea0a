"""Pools the passages that the judges of an exam label: the best ones of several configurations, for each question."""

from __future__ import annotations

from collections.abc import Sequence

from surefind.access import Access
from surefind.errors import ExamError
from surefind.exam.asking import Asking
from surefind.exam.labels import Labels, Passage, Pooled
from surefind.exam.store import ExamStore
from surefind.kb import KnowledgeBase
from surefind.protocols import OnProgress

QUESTIONS = 50
"""The most questions of a pool, by default."""
PASSAGES = 10
"""The most passages of a question, by default."""


def labels_of(kb: KnowledgeBase, name: str) -> Labels:
    """Returns the labels of an exam. Raises an error if there are no questions of this name, or if the documents have
    changed since they were pooled."""
    store = ExamStore(kb.data / "exams")
    store.candidates(name)  # checks the name
    kept = Labels(store.folder / name)
    kept.check(kb.reader().fingerprint)
    return kept


def pooled(
    kb: KnowledgeBase,
    name: str,
    access: Access,
    pipelines: Sequence[str] = (),
    number: int = QUESTIONS,
    size: int = PASSAGES,
    report: OnProgress | None = None,
) -> list[Pooled]:
    """Returns the pool of an exam, and makes it if there is none."""
    kept = labels_of(kb, name)
    return kept.pool() or _made(kb, kept, name, access, pipelines, number, size, report)


def _made(
    kb: KnowledgeBase,
    kept: Labels,
    name: str,
    access: Access,
    pipelines: Sequence[str],
    number: int,
    size: int,
    report: OnProgress | None,
) -> list[Pooled]:
    waiting = ExamStore(kb.data / "exams").candidates(name).all()
    questions = [candidate.text for candidate in waiting if candidate.verdict != "rejected"][:number]
    if not questions:
        raise ExamError(f"There are no questions to label. Collect some with: surefind exam collect {name} FILE.")
    asking = Asking(kb, pipelines, access, report)
    pool = [
        Pooled(text, tuple(Passage(h.document, h.start, h.end, h.title) for h in asking.pool(text, size)))
        for text in questions
    ]
    kept.put_pool(pool, [str(one) for one in asking.pipelines], kb.reader().fingerprint)
    return pool
