"""Publishes a draft: reads its file again, checks that nobody published the document meanwhile, and commits it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from surefind.base.errors import ConflictError, SourceError
from surefind.base.names import look_alikes
from surefind.base.protocols import Retriever
from surefind.base.types import Document
from surefind.engine.files.git import WorkingTree
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.versions import content_hash
from surefind.engine.write import publish as generations
from surefind.engine.write.reading import FilePreparer
from surefind.engine.write.writer import Writer
from surefind.kb.drafts.review import check_approved, check_seen
from surefind.kb.drafts.store import Desk, no_draft
from surefind.kb.drafts.taking import base_of, check_new, completed, is_text, read, shown
from surefind.kb.drafts.values import OPEN, Base, Draft, Revision


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
    check_seen(draft, seen)
    check_approved(draft, needed)
    revision = desk.revision(number, draft.revision)
    now, before = base_of(writer.catalogue, draft.document)
    if before is None:
        check_new(writer.catalogue, draft.document)
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
        generation, version = generations.publish(writer, prepared.document, prepared.draft.author, retrievers)
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
        generations.publish(writer, prepared.document, prepared.draft.author, [])
    except _BuiltError:
        pass
    finally:
        writer.gate = asked


def write_to_git(
    tree: WorkingTree,
    catalogue: Catalogue,
    desk: Desk,
    number: int,
    reading: FilePreparer,
    may_read: Callable[[int], bool],
) -> str:
    """Writes the file of a published draft and commits it; returns the commit. `may_read` says whether the publisher
    may read a version. Raises `SourceError` if the file is another document's, or if it would open the document."""
    draft, revision = desk.get(number), desk.revision(number)
    file = tree.file(draft.document, revision.name)
    data = _closed(reading, draft, revision)
    _check_owner(tree, file, catalogue, desk, draft, may_read)
    _check_marks(reading, file, draft, data)
    message = f"Publish {draft.document}\n\nDraft {number}, generation {draft.generation}."
    return tree.commit(draft.document, revision.name, data, draft.author, message)


def _closed(reading: FilePreparer, draft: Draft, revision: Revision) -> bytes:
    """Returns the file of a revision, with the access list that the document has. A file without it would open the
    document when a sync reads it."""
    for data in (revision.data, revision.text.encode()):
        if set(read(reading, revision.name, data, draft.document).acl) == set(revision.acl):
            return data
        if not is_text(revision.name):
            break
    raise SourceError(
        f"{revision.name} does not name the access list of {draft.document}, and a sync of the file would open the "
        f"document. Write acl: {json.dumps(revision.acl)} into it."
    )


def _check_marks(reading: FilePreparer, file: Path, draft: Draft, data: bytes) -> None:
    """Raises `SourceError` if the file has marks of a static site that the draft has lost: a draft begins with the text
    of the document, in which they are plain Markdown."""
    if not file.exists() or not is_text(file.name):
        return
    old = file.read_bytes()
    if _is_converted(reading, file.name, old, draft) and not _is_converted(reading, file.name, data, draft):
        raise SourceError(
            f"{file.name} has marks of a static site, such as {{% … %}}, and this draft has not. Change the file in "
            "git; the next sync reads it."
        )


def _is_converted(reading: FilePreparer, name: str, data: bytes, draft: Draft) -> bool:
    """Returns whether the text of a document is not in its file as it stands."""
    text = read(reading, name, data, draft.document).text.strip()
    return text not in data.decode("utf-8", "replace").replace("\r\n", "\n")


def _check_owner(
    tree: WorkingTree, file: Path, catalogue: Catalogue, desk: Desk, draft: Draft, may_read: Callable[[int], bool]
) -> None:
    """Raises `SourceError` if a file is that of another document. A document that was published before its file was
    there has a second document as its owner, which the publisher must be allowed to read."""
    roots = {source.id: source.root for source in catalogue.sources() if not source.origin}
    path = file.relative_to(tree.repository).as_posix()
    owned = False
    for named in catalogue.named():
        root = roots.get(named.source)
        inside = file.relative_to(root).as_posix() if root and file.is_relative_to(root) else path
        if look_alikes(named.path).isdisjoint(look_alikes(inside)):
            continue
        if named.document == draft.document:
            owned = owned or named.source != 0
        elif inside != draft.document or not may_read(named.version):
            raise SourceError(f"{path} is the file of another document. Make a draft of that document instead.")
    if file.exists() and not owned and file.read_bytes() not in desk.published_files(draft.document):
        raise SourceError(f"{path} is there already, and not from this document. Sync it, and make a draft of that.")


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
