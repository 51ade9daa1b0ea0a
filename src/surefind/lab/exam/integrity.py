"""Checks the exams of a knowledge base, their questions and the log of searches for damage."""

from __future__ import annotations

from functools import partial

from surefind.kb import KnowledgeBase
from surefind.kb.integrity import check_all
from surefind.lab.exam.store import ExamStore


def check_exams(kb: KnowledgeBase) -> str:
    """Reads all of them. Returns what was checked; raises an error if something is damaged."""
    store = ExamStore(kb.data / "exams")
    files = [(name, version) for name in store.names() for version in store.found(name)[1]]
    damaged = store.questions.problems()
    if damaged:
        raise RuntimeError(damaged[0])
    check_all([*(partial(store.load, *file) for file in files), kb.queries.all])
    return f"{len(files)} exams and the questions of {len(store.collected())} match their checksums"
