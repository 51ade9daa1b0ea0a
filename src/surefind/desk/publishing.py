"""Publishes a draft: reads its file again, checks that nobody published the document meanwhile, and commits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surefind.desk.review import check_approved, check_seen
from surefind.desk.source import shown
from surefind.desk.store import Desk, no_draft
from surefind.desk.taking import base_of, check_document, completed, read
from surefind.desk.values import OPEN, Base, Draft, Revision
from surefind.errors import ConflictError
from surefind.protocols import Retriever
from surefind.store.versions import content_hash
from surefind.types import Document
from surefind.write import publish as catalogue
from surefind.write.writer import Writer


@dataclass(frozen=True)
class Ready:
    """A draft that can be published as it is."""

    draft: Draft
    revision: Revision
    document: Document
    now: Base
    """The published version of its document."""

    @property
    def is_published(self) -> bool:
        """Whether the published version says the same: a publisher that was killed had committed it."""
        return self.now.content == content_hash(self.document)


def ready(writer: Writer, desk: Desk, number: int, needed: int = 0, seen: int | None = None) -> Ready:
    """Reads the newest revision of a draft as it would be published. Raises `SourceError` if no document can have its
    name, `UsageError` if it lacks approvals, and `ConflictError` if another version of the document was published since
    the draft was made, or if the revision is not the one that was `seen`."""
    draft = desk.get(number)
    if draft.state not in OPEN:
        raise no_draft(number, draft.state)
    check_document(draft.document)
    check_seen(draft, seen)
    check_approved(draft, needed)
    revision = desk.revision(number, draft.revision)
    now, before = base_of(writer.catalogue, draft.document)
    read_again = read(writer.reading, revision.name, revision.data, draft.document)
    made = completed(read_again, before, desk.keeps(number), revision.acl)
    prepared = Ready(draft, revision, made, now)
    if now.content != desk.base(number).content and not prepared.is_published:
        raise outdated(draft, now)
    return prepared


def publish(
    writer: Writer,
    desk: Desk,
    number: int,
    retrievers: Sequence[Retriever],
    needed: int = 0,
    seen: int | None = None,
) -> int:
    """Commits a generation in which a draft replaces the document's earlier version. The version has the author of the
    draft. Returns the generation's number."""
    prepared = ready(writer, desk, number, needed, seen)
    if prepared.is_published and prepared.now.content != desk.base(number).content:
        generation, base = writer.catalogue.generation(), prepared.now
    else:
        generation, version = catalogue.publish(writer, prepared.document, prepared.draft.author, retrievers)
        base = Base(version, content_hash(prepared.document), shown(prepared.document))
    desk.published(number, prepared.revision.number, base, generation, writer.author)
    return generation


def build_only(writer: Writer, desk: Desk, number: int, seen: int | None = None) -> None:
    """Builds what publishing a draft builds and asks the gate of the writer, but commits nothing."""
    prepared = ready(writer, desk, number, seen=seen)
    asked = writer.gate

    def refuse(writer: Writer, contents: int) -> None:
        if asked is not None:
            asked(writer, contents)
        raise _BuiltError

    writer.gate = refuse
    try:
        catalogue.publish(writer, prepared.document, prepared.draft.author, [])
    except _BuiltError:
        pass
    finally:
        writer.gate = asked


class _BuiltError(Exception):
    """Everything is built, and the writer deletes it."""


def outdated(draft: Draft, now: Base) -> ConflictError:
    """Returns the error for a draft whose document has another published version than the one it was made from."""
    happened = "was published again" if now.version else "was removed"
    return ConflictError(
        f"{draft.document} {happened} since draft {draft.number} was made, so publishing it would undo that. Compare: "
        f"surefind draft diff {draft.number}. Then put your text on the newer version: surefind draft rebase "
        f"{draft.number}."
    )
