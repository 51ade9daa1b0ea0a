"""Which questions of the standing exam a draft gains or loses, before it is published.

The draft's set of documents is built as for publishing, and the exam is asked on it and on the current generation. Then
the set is deleted. Every question is asked, because a changed document can move any ranking (see `bench.drift`); what
the draft does not touch comes from the caches. All of it runs with the rights of the caller, on word statistics of the
documents that they may read: a rank would else tell whether a restricted document has a word of the draft.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from surefind.base.access import Access
from surefind.base.errors import ExamError, NothingIndexedError
from surefind.base.running.workers import check_stopped
from surefind.engine.search.reader import Searcher
from surefind.kb import KnowledgeBase
from surefind.lab.bench.drift import Drift, measure_drift
from surefind.lab.bench.standing import has_standing_exam, standing_exam
from surefind.lab.exam.visible import readable_questions


@dataclass(frozen=True)
class Preview:
    """What publishing a draft would do to the answers of the standing exam."""

    drift: Drift | None
    """None if the exam was not asked."""
    reason: str = ""
    """Why it was not asked."""


def preview(kb: KnowledgeBase, number: int, access: Access, revision: int | None = None) -> Preview:
    """Asks the standing exam as if a draft was published, for a caller: the questions whose documents they may read.
    Raises `ConflictError` if `revision` is not the newest of the draft. Holds the writer's lock, and leaves nothing
    behind."""
    if not has_standing_exam(kb):
        return Preview(None, "There is no exam yet. Make one with: surefind exam generate.")
    if kb.pipeline().asks_llm:
        return Preview(None, "The default pipeline asks a language model, so the exam is asked when it is published.")
    if kb.settings.store.backend != "local" and not access.sees_all:
        return Preview(None, "This backend weighs words by all documents, so only who may read all sees the questions.")

    def look(before: Searcher, after: Searcher) -> Drift:
        exam = standing_exam(kb, before)
        asked = readable_questions(exam, before, access)
        if not asked:
            raise ExamError("No question of the standing exam is about documents that you may read.")
        return measure_drift(
            kb, replace(exam, queries=tuple(asked)), before, after, lambda *_: check_stopped(), access=access
        )

    try:
        return Preview(kb.drafts.trial(number, look, revision))
    except (ExamError, NothingIndexedError) as error:
        return Preview(None, str(error))
