"""Retiring documents and restoring them, for the routes and pages of the server.

A caller who may review and may read a document may retire it. A retired document is known to those who could restore
it: reviewers who may read its last version. To others it does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass

from surefind.base.errors import ExamError, NotFoundError, StoreError
from surefind.doors.auth.caller import Caller
from surefind.doors.http.job import Job
from surefind.doors.http.service import Service
from surefind.engine.store.rows import Version
from surefind.kb.draft_rights import sees
from surefind.kb.drafts.values import Draft
from surefind.kb.version_rights import may_read_version, readable_version
from surefind.lab.bench.standing import has_standing_exam, standing_exam
from surefind.lab.exam.visible import readable_questions


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
    drafts = [draft for draft in service.kb.desk.waiting(document) if sees(service.kb, caller, draft)]
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
