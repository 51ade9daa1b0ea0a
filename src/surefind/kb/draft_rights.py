"""Who may do what with a draft, at every door.

Authors see the revisions that they wrote. Reviewers and other authors see the revisions that they may read, if they may
also read the document as it is published now. An author may have written about a document that they may not read, so
what the document says now is shown only to callers who may read it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeVar

from surefind.base.access import Access
from surefind.base.errors import ForbiddenError, NotFoundError, UsageError
from surefind.base.types import Chunk, Document
from surefind.engine.search.reader import Searcher
from surefind.kb import KnowledgeBase
from surefind.kb.drafts.review import comments
from surefind.kb.drafts.source import decoded, is_text
from surefind.kb.drafts.values import Comment, Draft, Revision
from surefind.kb.version_rights import readable_version

T = TypeVar("T")


class Person(Protocol):
    """Whoever works with drafts: their name, what they may do and what they may read."""

    @property
    def name(self) -> str: ...
    def may(self, scope: Literal["review"]) -> bool: ...
    def access(self) -> Access: ...


Action = Literal["submit", "approve", "return", "rebase", "discard"]
"""What can be done with a draft, beside saving and publishing it."""


def sees(kb: KnowledgeBase, caller: Person, draft: Draft) -> bool:
    """Returns whether a caller may see a draft: its authors and reviewers, if they may see its newest revision."""
    known = caller.may("review") or caller.name in kb.desk.authors(draft.number)
    return known and sees_revision(kb, caller, draft.number)


def sees_revision(kb: KnowledgeBase, caller: Person, number: int, revision: int | None = None) -> bool:
    """Returns whether a caller wrote a revision of a draft, by default the newest, or may read it."""
    wrote = kb.desk.signed(number, revision)[0] == caller.name
    return wrote or kb.drafts.may_read(number, caller.access(), revision)


def reviews(kb: KnowledgeBase, caller: Person, draft: Draft) -> bool:
    """Returns whether a caller may review a draft, if somebody else wrote it. Publishing it replaces the document, so
    they must be able to read that, too."""
    return caller.may("review") and kb.drafts.may_read(draft.number, caller.access())


def seen(kb: KnowledgeBase, caller: Person, number: int) -> Draft:
    """Returns a draft. Raises `NotFoundError` if there is none, or the caller may not see it."""
    missing = NotFoundError(f"There is no draft {number} among those you may see.")
    try:
        draft = kb.desk.get(number)
    except UsageError:
        raise missing from None
    if not sees(kb, caller, draft):
        raise missing
    return draft


def seen_revision(kb: KnowledgeBase, caller: Person, number: int, revision: int | None = None) -> Revision:
    """Returns a revision of a draft, by default the newest. Raises `NotFoundError` if the caller may not see it. The
    revision that was read is checked, after it was read: rights may change meanwhile."""
    found_revision = kb.desk.revision(number, revision)
    if not sees_revision(kb, caller, number, found_revision.number):
        raise NotFoundError(f"There is no such revision of draft {number} among those you may see.")
    return found_revision


def seen_chunks(kb: KnowledgeBase, caller: Person, number: int) -> list[Chunk]:
    """Returns the chunks that the newest revision of a draft will have. Raises `NotFoundError` if the caller may not
    see that revision when they are made."""
    return _made_of_seen(kb, caller, number, kb.drafts.chunks_of)


def seen_document(kb: KnowledgeBase, caller: Person, number: int) -> Document:
    """Returns the document that the newest revision of a draft will be, under the same conditions."""
    return _made_of_seen(kb, caller, number, kb.drafts.document_of)


def _made_of_seen(kb: KnowledgeBase, caller: Person, number: int, make: Callable[[str, bytes, str, bool], T]) -> T:
    current = seen_revision(kb, caller, number)
    made = make(current.name, current.data, kb.desk.get(number).document, kb.desk.keeps(number))
    if not sees_revision(kb, caller, number, current.number):
        raise NotFoundError(f"There is no draft {number} among those you may see.")
    return made


def seen_comments(kb: KnowledgeBase, caller: Person, number: int) -> list[Comment]:
    """Returns the comments on the revisions of a draft that the caller may see: comments quote what they are about."""
    said = comments(kb.desk, number)
    known = {
        number_said
        for number_said in {comment_said.revision for comment_said in said}
        if sees_revision(kb, caller, number, number_said)
    }
    return [comment_said for comment_said in said if comment_said.revision in known]


def seen_comment(kb: KnowledgeBase, caller: Person, number: int, which: int) -> Comment:
    """Returns a comment on a draft. Raises `NotFoundError` if there is none, or the caller may not see its revision."""
    comment = next((one for one in seen_comments(kb, caller, number) if one.number == which), None)
    if comment is None:
        raise NotFoundError(f"Draft {number} has no comment {which} among those you may see.")
    return comment


def reviewed(kb: KnowledgeBase, caller: Person, number: int) -> Draft:
    """Returns a draft that the caller may review. Raises an error if they may not."""
    draft = seen(kb, caller, number)
    if not reviews(kb, caller, draft):
        raise ForbiddenError("This needs the scope 'review', and the right to read the draft.")
    return draft


def published_text(kb: KnowledgeBase, caller: Person, document: str) -> str:
    """Returns what a document says now; empty if the caller may not read it."""
    return kb.drafts.published_text(document, caller.access())


def known_text(kb: KnowledgeBase, caller: Person, revision: Revision) -> str:
    """Returns the text of a revision. It has the metadata and the access list of its document, so an author who may not
    read it gets the file alone."""
    if kb.drafts.may_read(revision.draft, caller.access(), revision.number):
        return revision.text
    return decoded(revision.data) if is_text(revision.name) else ""


def compared(
    kb: KnowledgeBase, reader: Callable[[], Searcher], caller: Person, draft: Draft, revision: Revision
) -> tuple[str, str]:
    """Returns what a document says now and what a revision says, as far as the caller may know. A published draft is
    compared with what it replaced."""
    published = draft.state == "published"
    before = _replaced(kb, reader, caller, draft) if published else published_text(kb, caller, draft.document)
    return before, known_text(kb, caller, revision)


def _replaced(kb: KnowledgeBase, reader: Callable[[], Searcher], caller: Person, draft: Draft) -> str:
    """Returns what a published draft replaced; empty if the caller may not read it, or if it is not kept any more, so
    that nobody knows who may."""
    base = kb.desk.base(draft.number)
    if base.version is None:
        return ""
    try:
        readable_version(kb, reader, base.version, caller.access())
    except NotFoundError:
        return ""
    return base.text


def lines_to_comment(kb: KnowledgeBase, caller: Person, draft: Draft, revision: int) -> int:
    """Returns how many lines of a revision a caller may comment on: those of the text that they see."""
    return len(known_text(kb, caller, seen_revision(kb, caller, draft.number, revision)).splitlines())


def outdated(kb: KnowledgeBase, caller: Person, draft: Draft) -> bool:
    """Returns whether another version of the document was published since the draft was made. A caller who may not read
    the document does not learn it."""
    if not kb.drafts.may_read(draft.number, caller.access()):
        return False
    return kb.desk.base(draft.number).text != kb.drafts.published_text(draft.document, caller.access())


def act(kb: KnowledgeBase, caller: Person, number: int, action: Action, revision: int = 0) -> Draft:
    """Submits a draft, approves it, hands it back, puts it on the newer version or discards it. `revision` is the one
    that the caller read and approves."""
    check = reviewed if action in ("approve", "return") else seen
    check(kb, caller, number)
    if action == "approve":
        return kb.drafts.approve(number, revision, caller.name)
    if action == "rebase":
        return kb.drafts.rebase(number, caller.name)
    if action == "discard":
        kb.drafts.discard(number, caller.name)
        return kb.desk.get(number)
    return kb.drafts.review(number, action == "return", caller.name)
