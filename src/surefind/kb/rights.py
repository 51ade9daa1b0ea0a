"""Who may do what with a draft, at every door.

Authors see the revisions that they wrote. Reviewers and other authors see the revisions that they may read, if they may
also read the document as it is published now. An author may have written about a document that they may not read, so
what the document says now is shown only to callers who may read it.

Who may read each document, and why: what `surefind access` shows.

Who may read a kept version of a document.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from surefind.base.access import EVERYTHING, PUBLIC, Access, AccessList, Caller, access_lists
from surefind.base.errors import ForbiddenError, NotFoundError, StoreError, UsageError
from surefind.base.types import Chunk, Document
from surefind.engine.search.reader import Searcher
from surefind.engine.store.database import explaining
from surefind.engine.store.versions import Version
from surefind.kb import KnowledgeBase
from surefind.kb.drafts.publishing import decoded, is_text
from surefind.kb.drafts.review import comments
from surefind.kb.drafts.values import Comment, Draft, Revision


def may_read_version(kb: KnowledgeBase, version: Version, access: Access) -> bool:
    """Returns whether a caller may read a version, by its own list and the rules for its name."""
    versions = kb.catalogue.versions
    try:
        own = versions.document(version.number).acl
        path = versions.file_of(version.number)[1]
    except NotFoundError:
        return False
    lists = access_lists(own, (version.document, path), kb.settings.access)
    return access.admits(access_list.groups for access_list in lists)


def readable_version(kb: KnowledgeBase, reader: Callable[[], Searcher], number: int, access: Access) -> Version:
    """Returns a kept version. Raises `NotFoundError` if there is none, or the caller may not read it, or may not read
    its document now, in the generation of `reader`."""
    missing = NotFoundError(f"There is no version {number} among those you may read.")
    try:
        document = kb.catalogue.versions.document(number).id
        reader().document(document, access)
    except (StoreError, NotFoundError):  # whose message names the document
        raise missing from None
    version = next((candidate for candidate in kb.history(document) if candidate.number == number), None)
    if version is None or not may_read_version(kb, version, access):
        raise missing
    return version


@dataclass(frozen=True)
class Decision:
    """The access lists of a document. Without any, nobody decided, and everybody may read it."""

    document: str
    lists: list[AccessList]

    @property
    def readers(self) -> str:
        """Who may read the document: `everybody`, `hr or audit`, `(hr or audit) and staff`, `the owner`."""
        limits = [
            tuple(group for group in access_list.groups if group != EVERYTHING)
            for access_list in self.lists
            if PUBLIC not in access_list.groups
        ]
        if not all(limits):
            return "the owner"
        named = [" or ".join(groups) for groups in dict.fromkeys(limits)]
        return " and ".join(f"({name})" if " or " in name and len(named) > 1 else name for name in named) or "everybody"

    @property
    def reason(self) -> str:
        """Where the lists are written."""
        return " and ".join(access_list.origin for access_list in self.lists) or "nobody restricted it"

    def admits(self, access: Access) -> bool:
        """Returns whether the caller may read the document; filters do not count."""
        return access.admits(access_list.groups for access_list in self.lists)


def decisions(base: KnowledgeBase) -> list[Decision]:
    """Returns the decision about each document of the current generation, in order of id."""
    rules = base.settings.access
    with explaining(base.data):
        members = base.catalogue.members(base.catalogue.snapshot_id())
    made = [Decision(m.document, access_lists(m.acl, (m.path, m.document), rules)) for m in members]
    return sorted(made, key=lambda decision: decision.document)


T = TypeVar("T")


Action = Literal["submit", "approve", "return", "rebase", "discard"]
"""What can be done with a draft, beside saving and publishing it."""


def sees(kb: KnowledgeBase, caller: Caller, draft: Draft) -> bool:
    """Returns whether a caller may see a draft: its authors and reviewers, if they may see its newest revision."""
    known = caller.may("review") or caller.name in kb.drafts.store.authors(draft.number)
    return known and sees_revision(kb, caller, draft.number)


def sees_revision(kb: KnowledgeBase, caller: Caller, number: int, revision: int | None = None) -> bool:
    """Returns whether a caller wrote a revision of a draft, by default the newest, or may read it."""
    wrote = kb.drafts.store.signed(number, revision)[0] == caller.name
    return wrote or kb.drafts.may_read(number, caller.access(), revision)


def reviews(kb: KnowledgeBase, caller: Caller, draft: Draft) -> bool:
    """Returns whether a caller may review a draft, if somebody else wrote it. Publishing it replaces the document, so
    they must be able to read that, too."""
    return caller.may("review") and kb.drafts.may_read(draft.number, caller.access())


def seen(kb: KnowledgeBase, caller: Caller, number: int) -> Draft:
    """Returns a draft. Raises `NotFoundError` if there is none, or the caller may not see it."""
    missing = NotFoundError(f"There is no draft {number} among those you may see.")
    try:
        draft = kb.drafts.store.get(number)
    except UsageError:
        raise missing from None
    if not sees(kb, caller, draft):
        raise missing
    return draft


def seen_revision(kb: KnowledgeBase, caller: Caller, number: int, revision: int | None = None) -> Revision:
    """Returns a revision of a draft, by default the newest. Raises `NotFoundError` if the caller may not see it. The
    revision that was read is checked, after it was read: rights may change meanwhile."""
    revised = kb.drafts.store.revision(number, revision)
    if not sees_revision(kb, caller, number, revised.number):
        raise NotFoundError(f"There is no such revision of draft {number} among those you may see.")
    return revised


def seen_chunks(kb: KnowledgeBase, caller: Caller, number: int) -> list[Chunk]:
    """Returns the chunks that the newest revision of a draft will have. Raises `NotFoundError` if the caller may not
    see that revision when they are made."""
    return _made_of_seen(kb, caller, number, kb.drafts.chunks_of)


def seen_document(kb: KnowledgeBase, caller: Caller, number: int) -> Document:
    """Returns the document that the newest revision of a draft will be, under the same conditions."""
    return _made_of_seen(kb, caller, number, kb.drafts.document_of)


def _made_of_seen(kb: KnowledgeBase, caller: Caller, number: int, make: Callable[[str, bytes, str, bool], T]) -> T:
    current = seen_revision(kb, caller, number)
    made = make(current.name, current.data, kb.drafts.store.get(number).document, kb.drafts.store.keeps(number))
    if not sees_revision(kb, caller, number, current.number):
        raise NotFoundError(f"There is no draft {number} among those you may see.")
    return made


def seen_comments(kb: KnowledgeBase, caller: Caller, number: int) -> list[Comment]:
    """Returns the comments on the revisions of a draft that the caller may see: comments quote what they are about."""
    every = comments(kb.drafts.store, number)
    seen = {revision for revision in {c.revision for c in every} if sees_revision(kb, caller, number, revision)}
    return [comment for comment in every if comment.revision in seen]


def seen_comment(kb: KnowledgeBase, caller: Caller, number: int, which: int) -> Comment:
    """Returns a comment on a draft. Raises `NotFoundError` if there is none, or the caller may not see its revision."""
    comment = next((c for c in seen_comments(kb, caller, number) if c.number == which), None)
    if comment is None:
        raise NotFoundError(f"Draft {number} has no comment {which} among those you may see.")
    return comment


def reviewed(kb: KnowledgeBase, caller: Caller, number: int) -> Draft:
    """Returns a draft that the caller may review. Raises an error if they may not."""
    draft = seen(kb, caller, number)
    if not reviews(kb, caller, draft):
        raise ForbiddenError("This needs the scope 'review', and the right to read the draft.")
    return draft


def published_text(kb: KnowledgeBase, caller: Caller, document: str) -> str:
    """Returns what a document says now; empty if the caller may not read it."""
    return kb.drafts.published_text(document, caller.access())


def known_text(kb: KnowledgeBase, caller: Caller, revision: Revision) -> str:
    """Returns the text of a revision. It has the metadata and the access list of its document, so an author who may not
    read it gets the file alone."""
    if kb.drafts.may_read(revision.draft, caller.access(), revision.number):
        return revision.text
    return decoded(revision.data) if is_text(revision.name) else ""


def compared(
    kb: KnowledgeBase, reader: Callable[[], Searcher], caller: Caller, draft: Draft, revision: Revision
) -> tuple[str, str]:
    """Returns what a document says now and what a revision says, as far as the caller may know. A published draft is
    compared with what it replaced."""
    published = draft.state == "published"
    before = _replaced(kb, reader, caller, draft) if published else published_text(kb, caller, draft.document)
    return before, known_text(kb, caller, revision)


def _replaced(kb: KnowledgeBase, reader: Callable[[], Searcher], caller: Caller, draft: Draft) -> str:
    """Returns what a published draft replaced; empty if the caller may not read it, or if it is not kept any more, so
    that nobody knows who may."""
    base = kb.drafts.store.base(draft.number)
    if base.version is None:
        return ""
    try:
        readable_version(kb, reader, base.version, caller.access())
    except NotFoundError:
        return ""
    return base.text


def lines_to_comment(kb: KnowledgeBase, caller: Caller, draft: Draft, revision: int) -> int:
    """Returns how many lines of a revision a caller may comment on: those of the text that they see."""
    return len(known_text(kb, caller, seen_revision(kb, caller, draft.number, revision)).splitlines())


def outdated(kb: KnowledgeBase, caller: Caller, draft: Draft) -> bool:
    """Returns whether another version of the document was published since the draft was made. A caller who may not read
    the document does not learn it."""
    if not kb.drafts.may_read(draft.number, caller.access()):
        return False
    return kb.drafts.store.base(draft.number).text != kb.drafts.published_text(draft.document, caller.access())


def act(kb: KnowledgeBase, caller: Caller, number: int, action: Action, revision: int = 0) -> Draft:
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
        return kb.drafts.store.get(number)
    return kb.drafts.review(number, action == "return", caller.name)
