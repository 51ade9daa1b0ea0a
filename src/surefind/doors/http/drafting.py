"""Publishes a draft as a job, and says what a server knows about it besides: `kb.draft_rights` says who may."""

from __future__ import annotations

from surefind.doors.auth.caller import Caller
from surefind.doors.http.job import Job
from surefind.doors.http.service import Service
from surefind.kb.draft_rights import reviewed
from surefind.kb.drafts.review import check_approved, check_seen


def sees_document(service: Service, caller: Caller, document: str) -> bool:
    """Returns whether a caller may read the published version of a document."""
    return document in service.readable(caller)


def approvals_needed(service: Service) -> int:
    """Returns how many people must approve a draft. On an open server everybody is the same person, who could never
    approve anything, so nobody has to."""
    return 0 if service.gatekeeper.lets_everybody_in else service.kb.settings.desk.approvals


async def publish(service: Service, caller: Caller, number: int, revision: int | None = None) -> Job:
    """Starts the job that publishes a draft. Raises an error if the caller may not, if it lacks approvals, or if
    `revision`, the one that the caller read, is not its newest."""
    draft = await service.work(lambda: reviewed(service.kb, caller, number))
    needed = approvals_needed(service)
    check_seen(draft, revision)
    check_approved(draft, needed)
    options = {"version": number, "approved": needed > 0, "revision": revision}
    return await service.jobs.start(caller, "publish", options, draft.document, f"/drafts/{number}")
