"""What a draft will do: its chunks, and the exam questions that it gains or loses, as far as the caller may know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from surefind.base.errors import (
    ConflictError,
    ExamError,
    LockedError,
    NotFoundError,
    NothingIndexedError,
    SurefindError,
)
from surefind.base.types import Chunk
from surefind.doors.auth.caller import Caller
from surefind.doors.http.service import Service
from surefind.kb import KnowledgeBase
from surefind.kb.draft_rights import reviews
from surefind.kb.drafts.values import Draft
from surefind.lab.bench.drift import Drift, ScoreChange
from surefind.lab.bench.preview import Preview, preview
from surefind.lab.bench.standing import has_standing_exam, standing_exam
from surefind.lab.exam.model import Exam, ExamQuery
from surefind.lab.exam.visible import readable_questions


def chunks_of(cut_all: Callable[[], list[Chunk]]) -> dict[str, Any]:
    """Returns the chunks that a draft will have, or why they cannot be shown. Raises `NotFoundError` if the caller may
    not know the draft."""
    try:
        cut = cut_all()
    except NotFoundError:
        raise
    except SurefindError as error:
        return {"chunks": [], "reason": str(error)}
    rows = [{"start": c.start, "end": c.end, "text": c.text, "headings": list(c.headings)} for c in cut]
    return {"chunks": rows, "reason": ""}


def questions_of(service: Service, caller: Caller, draft: Draft) -> dict[str, Any]:
    """Returns the questions of the standing exam that a draft gains or loses. An exam quotes documents, so a caller
    sees the questions whose documents they may read."""
    if not reviews(service.kb, caller, draft):
        return _none("Reviewers see which exam questions a draft changes.")
    try:
        asked = _asked(service, caller, draft)
    except LockedError:
        return _none("Another change is being written. Try again soon.")
    except ConflictError:
        return _none("The draft or its document changed meanwhile. Open the draft again.")
    except NothingIndexedError:
        return _none("Nothing is published yet, so there is nothing to compare with.")
    if not reviews(service.kb, caller, draft):  # asking takes long
        raise NotFoundError(f"There is no draft {draft.number} among those you may see.")
    return _none(asked.reason) if asked.drift is None else _shown(caller, asked.drift)


def _none(reason: str) -> dict[str, Any]:
    return {"asked": 0, "gained": [], "lost": [], "rewritten": [], "reason": reason}


def _asked(service: Service, caller: Caller, draft: Draft) -> Preview:
    """Asks the questions that the caller may see, with the caller's rights, once for a revision, a generation, these
    rights and a configuration: it holds the writer's lock, and many people read a page."""
    kb, access = service.kb, caller.access()
    configuration = (str(kb.pipeline()), str(kb.settings.layout), kb.settings.access)
    key = (draft.number, draft.revision, kb.catalogue.generation(), _standing(kb), access, *configuration)
    previews = service.previews
    return previews.get(key) or previews.put(key, preview(kb, draft.number, access, draft.revision))


def _standing(kb: KnowledgeBase) -> str:
    """Identifies the exam that is asked; empty if there is none."""
    try:
        return standing_exam(kb, kb.reader()).fingerprint if has_standing_exam(kb) else ""
    except ExamError:  # the settings name one that does not exist
        return ""


def _shown(caller: Caller, drift: Drift) -> dict[str, Any]:
    def rows(changes: tuple[ScoreChange, ...]) -> list[dict[str, Any]]:
        shown = [asdict(change) for change in changes]
        return shown if caller.access().sees_all else [{**row, "why": ""} for row in shown]

    return {
        "asked": drift.questions,
        "exam": drift.exam,
        "before": drift.before,
        "after": drift.after,
        "gained": rows(drift.better),
        "lost": rows(drift.worse),
        "rewritten": list(drift.rewritten),
        "reason": "",
    }


def seen_questions(exam: Exam, service: Service, caller: Caller) -> list[ExamQuery]:
    """Returns the questions all of whose passages the caller may read."""
    return readable_questions(exam, service.reader(), caller.access())
