"""Which questions of the standing exam a draft gains or loses, before it is published.

The draft's set of documents is built as for publishing, and the exam is asked on it and on the current generation. Then
the set is deleted. Every question is asked, because a changed document can move any ranking (see `bench.drift`); what
the draft does not touch comes from the caches.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from surefind.bench.drift import Drift, measure_drift
from surefind.bench.standing import has_standing_exam, standing_exam
from surefind.errors import ExamError, NothingIndexedError
from surefind.kb import KnowledgeBase
from surefind.protocols import Priced
from surefind.search.reader import Reader


@dataclass(frozen=True)
class Preview:
    """What publishing a draft would do to the answers of the standing exam."""

    drift: Drift | None
    """None if the exam was not asked."""
    reason: str = ""
    """Why it was not asked."""


def preview(kb: KnowledgeBase, number: int, only: Collection[str] | None = None) -> Preview:
    """Asks the standing exam as if a draft was published; with `only`, the questions with these ids. Holds the writer's
    lock, and leaves nothing behind."""
    if not has_standing_exam(kb):
        return Preview(None, "There is no exam yet. Make one with: surefind exam generate.")
    if any(isinstance(stage, Priced) for stage in kb.pipeline().stages):
        return Preview(None, "The default pipeline asks a language model, so the exam is asked when it is published.")

    def look(before: Reader, after: Reader) -> Drift:
        exam = standing_exam(kb, before)
        if only is not None:
            exam = replace(exam, queries=tuple(query for query in exam.queries if query.id in only))
        return measure_drift(kb, exam, before, after)

    try:
        return Preview(kb.trial(number, look))
    except (ExamError, NothingIndexedError) as error:
        return Preview(None, str(error))
