"""Chooses the standing exam: the one that is asked again whenever the documents change."""

from __future__ import annotations

from dataclasses import replace

from surefind.base.access import Access
from surefind.engine.search.reader import Searcher
from surefind.kb import KnowledgeBase
from surefind.lab.exam.known_item import generate
from surefind.lab.exam.model import Exam
from surefind.lab.exam.store import ExamStore

_GENERATED = "known-item"


def has_standing_exam(kb: KnowledgeBase) -> bool:
    """Returns whether `standing_exam` finds a saved exam, so that it need not write one."""
    names = ExamStore(kb.data / "exams").names()
    return bool(kb.settings.standing) or _GENERATED in names or len(names) == 1


def standing_exam(kb: KnowledgeBase, before: Searcher) -> Exam:
    """Returns the exam that `standing` names; else the only exam besides known-item; else known-item.

    The newest saved version is taken as it is, even if the documents have changed since: an exam that is written anew
    after each change would not ask about what the change removed. If there is no exam at all, known-item questions are
    written from the documents of `before`, the generation to compare with, and saved."""
    store = ExamStore(kb.data / "exams")
    names = store.names()
    own = [name for name in names if name != _GENERATED]
    if kb.settings.standing:
        return store.load(kb.settings.standing)
    if len(own) == 1:
        return store.load(own[0])
    if _GENERATED in names:
        return store.load(_GENERATED)
    exam = generate(before.documents(Access.owner()))
    return store.save(replace(exam, corpus=before.fingerprint))
