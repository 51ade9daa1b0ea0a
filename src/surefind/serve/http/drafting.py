"""What routes and pages show of a draft, and how it is published. `serve/drafting.py` says who may."""

from __future__ import annotations

from surefind.desk.difference import DiffLine, difference
from surefind.desk.review import check_approved, check_seen
from surefind.desk.values import Draft, Revision
from surefind.errors import NotFoundError
from surefind.serve.auth.caller import Caller
from surefind.serve.drafting import known_text, published_text, reviewed
from surefind.serve.http.jobs import Job
from surefind.serve.http.service import Service

_COMPARED = 2_000_000
"""Characters of a text that are compared with another one."""
_COMPARED_LINES = 50_000
"""Lines of a text that are compared with another one."""


def sees_document(service: Service, caller: Caller, document: str) -> bool:
    """Returns whether a caller may read the published version of a document."""
    return document in service.readable(caller)


def compared(service: Service, caller: Caller, draft: Draft, revision: Revision) -> tuple[str, str]:
    """Returns what a document says now and what a revision says, as far as the caller may know. A published draft is
    compared with what it replaced."""
    if draft.state == "published":
        before = _replaced(service, caller, draft)
    else:
        before = published_text(service.kb, caller, draft.document)
    return before, known_text(service.kb, caller, revision)


def changed_lines(before: str, after: str) -> tuple[list[DiffLine], int]:
    """Returns the difference of two texts, and how many lines of the second one were not compared: the difference of
    very long texts would take more time and memory than a server has to spare."""
    old, new = (text[:_COMPARED].splitlines()[:_COMPARED_LINES] for text in (before, after))
    return difference("\n".join(old), "\n".join(new)), len(after.splitlines()) - len(new)


def _replaced(service: Service, caller: Caller, draft: Draft) -> str:
    """Returns what a published draft replaced; empty if the caller may not read it, or if it is not kept any more, so
    that nobody knows who may."""
    base = service.kb.desk.base(draft.number)
    if base.version is None:
        return ""
    try:
        service.readable_version(base.version, caller)
    except NotFoundError:
        return ""
    return base.text


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
