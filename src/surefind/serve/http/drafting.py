"""Who may do what with a draft, for the routes and pages of the server.

Authors see the revisions that they wrote. Reviewers and other authors see the revisions that they may read, if they may
also read the document as it is published now. An author may have written about a document that they may not read, so
what the document says now is shown only to callers who may read it.
"""

from __future__ import annotations

from surefind.desk.difference import DiffLine, difference
from surefind.desk.review import check_approved, check_seen, comments
from surefind.desk.source import decoded, is_text
from surefind.desk.values import Comment, Draft, Revision
from surefind.errors import NotFoundError, UsageError
from surefind.serve.auth.caller import Caller, ForbiddenError
from surefind.serve.http.jobs import Job
from surefind.serve.http.service import Service
from surefind.types import Chunk

_COMPARED = 2_000_000
"""Characters of a text that are compared with another one."""
_COMPARED_LINES = 50_000
"""Lines of a text that are compared with another one."""


def sees(service: Service, caller: Caller, draft: Draft) -> bool:
    """Returns whether a caller may see a draft: its authors and reviewers, if they may see its newest revision."""
    known = caller.may("review") or caller.name in service.kb.desk.authors(draft.number)
    return known and sees_revision(service, caller, draft.number)


def sees_revision(service: Service, caller: Caller, number: int, revision: int | None = None) -> bool:
    """Returns whether a caller wrote a revision of a draft, by default the newest, or may read it."""
    wrote = service.kb.desk.signed(number, revision)[0] == caller.name
    return wrote or service.kb.may_read_draft(number, caller.access(), revision)


def reviews(service: Service, caller: Caller, draft: Draft) -> bool:
    """Returns whether a caller may review a draft, if somebody else wrote it. Publishing it replaces the document, so
    they must be able to read that, too."""
    return caller.may("review") and service.kb.may_read_draft(draft.number, caller.access())


def seen(service: Service, caller: Caller, number: int) -> Draft:
    """Returns a draft. Raises `NotFoundError` if there is none, or the caller may not see it."""
    missing = NotFoundError(f"There is no draft {number} among those you may see.")
    try:
        draft = service.kb.desk.get(number)
    except UsageError:
        raise missing from None
    if not sees(service, caller, draft):
        raise missing
    return draft


def seen_revision(service: Service, caller: Caller, number: int, revision: int | None = None) -> Revision:
    """Returns a revision of a draft, by default the newest. Raises `NotFoundError` if the caller may not see it. The
    revision that was read is checked, after it was read: rights may change meanwhile."""
    found = service.kb.desk.revision(number, revision)
    if not sees_revision(service, caller, number, found.number):
        raise NotFoundError(f"There is no such revision of draft {number} among those you may see.")
    return found


def seen_chunks(service: Service, caller: Caller, number: int) -> list[Chunk]:
    """Returns the chunks that the newest revision of a draft will have. Raises `NotFoundError` if the caller may not
    see that revision when they are made."""
    kb, found = service.kb, seen_revision(service, caller, number)
    cut = kb.chunks_of(found.name, found.data, kb.desk.get(number).document, kb.desk.keeps(number))
    if not sees_revision(service, caller, number, found.number):
        raise NotFoundError(f"There is no draft {number} among those you may see.")
    return cut


def seen_comments(service: Service, caller: Caller, number: int) -> list[Comment]:
    """Returns the comments on the revisions of a draft that the caller may see: comments quote what they are about."""
    said = comments(service.kb.desk, number)
    known = {one for one in {one.revision for one in said} if sees_revision(service, caller, number, one)}
    return [one for one in said if one.revision in known]


def seen_comment(service: Service, caller: Caller, number: int, which: int) -> Comment:
    """Returns a comment on a draft. Raises `NotFoundError` if there is none, or the caller may not see its revision."""
    found = next((one for one in seen_comments(service, caller, number) if one.number == which), None)
    if found is None:
        raise NotFoundError(f"Draft {number} has no comment {which} among those you may see.")
    return found


def reviewed(service: Service, caller: Caller, number: int) -> Draft:
    """Returns a draft that the caller may review. Raises an error if they may not."""
    draft = seen(service, caller, number)
    if not reviews(service, caller, draft):
        raise ForbiddenError("This needs the scope 'review', and the right to read the draft.")
    return draft


def sees_document(service: Service, caller: Caller, document: str) -> bool:
    """Returns whether a caller may read the published version of a document."""
    return document in service.readable(caller)


def published_text(service: Service, caller: Caller, document: str) -> str:
    """Returns what a document says now; empty if the caller may not read it."""
    return service.kb.published_text(document, caller.access())


def compared(service: Service, caller: Caller, draft: Draft, revision: Revision) -> tuple[str, str]:
    """Returns what a document says now and what a revision says, as far as the caller may know. A published draft is
    compared with what it replaced."""
    if draft.state == "published":
        before = _replaced(service, caller, draft)
    else:
        before = published_text(service, caller, draft.document)
    return before, known_text(service, caller, revision)


def known_text(service: Service, caller: Caller, revision: Revision) -> str:
    """Returns the text of a revision. It has the metadata and the access list of its document, so an author who may not
    read it gets the file alone."""
    if service.kb.may_read_draft(revision.draft, caller.access(), revision.number):
        return revision.text
    return decoded(revision.data) if is_text(revision.name) else ""


def lines_to_comment(service: Service, caller: Caller, draft: Draft, revision: int) -> int:
    """Returns how many lines of a revision a caller may comment on: those of the text that they see."""
    return len(known_text(service, caller, seen_revision(service, caller, draft.number, revision)).splitlines())


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


def outdated(service: Service, caller: Caller, draft: Draft) -> bool:
    """Returns whether another version of the document was published since the draft was made. A caller who may not read
    the document does not learn it."""
    if not service.kb.may_read_draft(draft.number, caller.access()):
        return False
    return service.kb.desk.base(draft.number).text != service.kb.published_text(draft.document, caller.access())


def approvals_needed(service: Service) -> int:
    """Returns how many people must approve a draft. On an open server everybody is the same person, who could never
    approve anything, so nobody has to."""
    return 0 if service.gatekeeper.lets_everybody_in else service.kb.settings.desk.approvals


async def publish(service: Service, caller: Caller, number: int, revision: int | None = None) -> Job:
    """Starts the job that publishes a draft. Raises an error if the caller may not, if it lacks approvals, or if
    `revision`, the one that the caller read, is not its newest."""
    draft = await service.work(lambda: reviewed(service, caller, number))
    needed = approvals_needed(service)
    check_seen(draft, revision)
    check_approved(draft, needed)
    options = {"version": number, "approved": needed > 0, "revision": revision}
    return await service.jobs.start(caller, "publish", options, draft.document, f"/drafts/{number}")
