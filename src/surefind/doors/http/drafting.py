"""Publishes a draft as a job, and says what a server knows about it besides: `kb.draft_rights` says who may.

What a draft will do: its chunks, and the exam questions that it gains or loses, as far as the caller may know.

Retiring documents and restoring them, for the routes and pages of the server.

A caller who may review and may read a document may retire it. A retired document is known to those who could restore
it: reviewers who may read its last version. To others it does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from surefind.base.access import Caller
from surefind.base.errors import (
    ConflictError,
    ExamError,
    LockedError,
    NotFoundError,
    NothingIndexedError,
    StoreError,
    SurefindError,
)
from surefind.base.types import Chunk
from surefind.doors.http.jobs import Job
from surefind.doors.http.service import Service
from surefind.engine.store.versions import Version
from surefind.kb import KnowledgeBase
from surefind.kb.drafts.publishing import check_approved, check_seen
from surefind.kb.drafts.values import Draft
from surefind.kb.rights import may_read_version, readable_version, reviewed, reviews, sees
from surefind.lab.bench.drift import Drift, ScoreChange, has_standing_exam, standing_exam
from surefind.lab.bench.gate import Preview, preview
from surefind.lab.exam.model import Exam, ExamQuery, readable_questions


def sees_document(service: Service, caller: Caller, document: str) -> bool:
    """Returns whether a caller may read the published version of a document."""
    return document in service.readable(caller)


def approvals_needed(service: Service) -> int:
    """Returns how many people must approve a draft. On an open server everybody is the same person, who could never
    approve anything, so nobody has to."""
    return 0 if service.gatekeeper.lets_everybody_in else service.kb.settings.drafts.approvals


async def publish(service: Service, caller: Caller, number: int, revision: int | None = None) -> Job:
    """Starts the job that publishes a draft. Raises an error if the caller may not, if it lacks approvals, or if
    `revision`, the one that the caller read, is not its newest."""
    draft = await service.work(lambda: reviewed(service.kb, caller, number))
    needed = approvals_needed(service)
    check_seen(draft, revision)
    check_approved(draft, needed)
    options = {"version": number, "approved": needed > 0, "revision": revision}
    return await service.jobs.start(caller, "publish", options, draft.document, f"/drafts/{number}")


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


@dataclass(frozen=True)
class Affected:
    """What retiring a document affects, as far as the caller may know."""

    title: str
    questions: list[str]
    """The questions of the standing exam that ask for it."""
    drafts: list[Draft]
    """The open drafts of it."""


def affected(service: Service, caller: Caller, document: str) -> Affected:
    """Raises `NotFoundError` if the caller may not read the document."""
    reader, access = service.reader(), caller.access()
    body, _ = reader.document(document, access)
    questions: list[str] = []
    if has_standing_exam(service.kb):
        try:
            asked = readable_questions(standing_exam(service.kb, reader), reader, access)
        except ExamError:  # the settings name one that does not exist
            asked = []
        questions = [
            question.text
            for question in asked
            if any(j.document == document and j.grade > 0 for j in question.judgments)
        ]
    drafts = [draft for draft in service.kb.drafts.store.waiting(document) if sees(service.kb, caller, draft)]
    return Affected(body.title or document, questions, drafts)


async def retire(service: Service, caller: Caller, document: str) -> Job:
    """Starts the job that retires a document."""
    caller.require("review")
    await service.work(lambda: service.reader().document(document, caller.access()))
    return await service.jobs.start(caller, "retire", {"document": document}, document, "/documents")


def retired(service: Service, caller: Caller, document: str) -> Version | None:
    """Returns the last version of a retired document, if the caller may know it."""
    version = service.kb.catalogue.versions.retired_of(document) if caller.may("review") else None
    return version if version is not None and may_read_version(service.kb, version, caller.access()) else None


def restorable(service: Service, caller: Caller, number: int) -> int:
    """Returns the number of a version that the caller may restore. Raises `NotFoundError` if they may not."""
    try:
        return readable_version(service.kb, service.reader, number, caller.access()).number
    except NotFoundError:
        try:
            version = retired(service, caller, service.kb.catalogue.versions.document(number).id)
        except (StoreError, NotFoundError):
            version = None
        if version is None or version.number != number:
            raise
        return number
