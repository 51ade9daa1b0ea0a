"""Takes in the file of a draft, and publishes it.

Taking it in checks its names, reads it under the limits of a sync, and completes it by what its document has.
Publishing reads the file again, checks that nobody published the document meanwhile, and commits it.

A document is shown as text that a person can read, compare and edit: its metadata and access list in front, then its
text.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from surefind.base.errors import ConflictError, SourceError, UsageError
from surefind.base.names import document_name, look_alikes
from surefind.base.protocols import Retriever
from surefind.base.text.languages import LANGUAGE, detected
from surefind.base.types import Document
from surefind.engine.files.git import WorkingTree, is_document_path
from surefind.engine.files.inside import LOOKS_RESTRICTED
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.versions import content_hash
from surefind.engine.write.preparing import FilePreparer
from surefind.engine.write.writer import Writer
from surefind.engine.write.writer import publish as publish_document
from surefind.kb.drafts.store import DraftStore, no_draft
from surefind.kb.drafts.values import OPEN, Base, Draft, Revision

_FENCE = "---"
_EDITABLE = (".md", ".markdown", ".mdown", ".mkd", ".mdx", ".txt")
"""The endings of files that are edited as text."""
_MAX_NAME_CHARS = 55
"""Characters of a made file name: with four bytes each, file systems still store it."""


def shown(document: Document) -> str:
    """Returns a document as Markdown with front matter. The Markdown reader makes the same document of it. A language
    that is found by reading the text is left out: whoever edits the text would state it for good."""
    facts: dict[str, Any] = dict(document.metadata)
    if LANGUAGE in facts and facts[LANGUAGE] == detected(document.text):
        del facts[LANGUAGE]
    if document.acl:
        facts["acl"] = list(document.acl)
    if not facts and not document.text.lstrip("\ufeff").startswith(_FENCE):
        return document.text
    lines = [f"{_key(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in facts.items()]
    return "\n".join([_FENCE, *lines, _FENCE, document.text])


def _key(key: str) -> str:
    return key if key.isidentifier() and key.isascii() else json.dumps(key, ensure_ascii=False)


def is_text(name: str) -> bool:
    """Returns whether a file of this name is edited as text."""
    return name.lower().endswith(_EDITABLE)


def text_name(document: str) -> str:
    """Returns the name of a text file that stands for a document, whatever its format was."""
    name = document.rpartition("/")[2].replace("\\", "_").lstrip(".")[-_MAX_NAME_CHARS:] or "document"
    return name if name.lower().endswith(_EDITABLE[:-1]) else f"{name}.md"


def decoded(data: bytes) -> str:
    """Returns the bytes of a text file as text, with plain line ends."""
    return data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\r", "\n")


_NAME = re.compile(r"[^\x00-\x1f\x7f/\\]{1,200}")
_MAX_DOCUMENT_CHARS = 500
_MAX_NAME_BYTES = 240
"""Bytes of a file's name, at most: file systems store 255."""


def check_name(name: str) -> None:
    """Raises `SourceError` if this is not a plain file name."""
    if not _NAME.fullmatch(name) or name.startswith(".") or not _storable(name) or len(name.encode()) > _MAX_NAME_BYTES:
        raise SourceError("The name of the file must be a plain file name, such as fees.md.")


def check_document(document: str) -> None:
    """Raises `SourceError` if a document cannot have this name: it is a path in its one spelling, at which the document
    may be written."""
    if not is_document_path(document_name(document)) or len(document) > _MAX_DOCUMENT_CHARS:
        raise SourceError(
            f"A document cannot be called {document[:100]!a}. Name it as in hits, such as policies/fees.md: "
            "without hidden files and folders, .. and surefind.toml."
        )


def check_new(catalogue: Catalogue, document: str, may_read: Callable[[int], bool] = lambda version: False) -> None:
    """Raises `SourceError` if a document that does not exist cannot have this name, or would look like another one in
    lists and citations. The other one is named only if the caller `may_read` its version."""
    files = catalogue.named()
    if any(file.document == document for file in files):
        return
    check_document(document)
    forms = look_alikes(document)
    alike = [file for file in files if not forms.isdisjoint(look_alikes(file.document))]
    if alike:
        named = next((f", {file.document!r}" for file in alike if may_read(file.version)), "")
        raise SourceError(
            f"{document!a} looks like the name of another document{named}. To change that one, write its name as in "
            "hits; else choose a name with other letters."
        )


def _storable(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def read(reading: FilePreparer, name: str, data: bytes, document: str) -> Document:
    """Reads the one document of a file, in a child process and under limits. Raises `SourceError` if it cannot be read,
    or has several documents."""
    reader = reading.find(name)
    if reader is None:
        known = ", ".join(reading.readers.suffixes())
        raise SourceError(f"No reader can read the file type of {name}. Known types: {known}.")
    limit = reading.limits.file_mb
    if len(data) > limit * 1e6:
        raise SourceError(f"{name} is larger than {limit:g} MB (max_file_mb).")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(data)
        try:
            prepared = reading.read(reader, file, document)
        except SourceError as error:
            raise SourceError(f"{name} {str(error).replace(str(file), name)}.") from None
    documents = prepared.documents
    if alike := next((reason for _, reason in prepared.complaints if reason.startswith(LOOKS_RESTRICTED)), ""):
        raise SourceError(f"{name} {alike}.")
    if len(documents) != 1:
        raise SourceError(f"{name} holds {len(documents)} documents. A draft must be one document.")
    return replace(documents[0], id=document)


def base_of(catalogue: Catalogue, document: str) -> tuple[Base, Document | None]:
    """Returns the published version of a document, and the document itself; an empty base if it is new."""
    version = catalogue.versions.find(document, catalogue.snapshot_id())
    if version is None:
        return Base(), None
    found = catalogue.versions.document(version)
    return base_from(version, found), found


def base_from(version: int, document: Document) -> Base:
    """Returns a version as the base of a draft."""
    return Base(version, content_hash(document), shown(document))


def completed(made: Document, before: Document | None, keeps: bool, acl: tuple[str, ...] = ()) -> Document:
    """Gives a draft without an access list that of its document. A file that was made elsewhere often has none, and
    would open a restricted document; `acl: [public]` opens it on purpose. With `keeps`, the draft has the metadata of
    its document, too. With `acl`, which was decided before, it has that list."""
    if before is not None and keeps:
        made = replace(made, metadata=before.metadata, acl=before.acl)
    elif before is not None and not made.acl:
        made = replace(made, acl=before.acl)
    return replace(made, acl=acl) if acl else made


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


def ready(writer: Writer, drafts: DraftStore, number: int, needed: int = 0, seen: int | None = None) -> Ready:
    """Reads the newest revision of a draft as it would be published. Raises `SourceError` if no document can have its
    name, `UsageError` if it lacks approvals, and `ConflictError` if another version of the document was published since
    the draft was made, or if the revision is not the one that was `seen`."""
    draft = drafts.get(number)
    if draft.state not in OPEN:
        raise no_draft(number, draft.state)
    check_seen(draft, seen)
    check_approved(draft, needed)
    revision = drafts.revision(number, draft.revision)
    now, before = base_of(writer.catalogue, draft.document)
    if before is None:
        check_new(writer.catalogue, draft.document)
    read_again = read(writer.reading, revision.name, revision.data, draft.document)
    made = completed(read_again, before, drafts.keeps(number), revision.acl)
    prepared = Ready(draft, revision, made, now)
    if now.content != drafts.base(number).content and not prepared.is_published:
        raise outdated(draft, now)
    return prepared


def publish(
    writer: Writer,
    drafts: DraftStore,
    number: int,
    retrievers: Sequence[Retriever],
    needed: int = 0,
    seen: int | None = None,
) -> int:
    """Commits a generation in which a draft replaces the document's earlier version. The version has the author of the
    draft. Returns the generation's number."""
    prepared = ready(writer, drafts, number, needed, seen)
    if prepared.is_published and prepared.now.content != drafts.base(number).content:
        generation, base = writer.catalogue.generation(), prepared.now
    else:
        generation, version = publish_document(writer, prepared.document, prepared.draft.author, retrievers)
        base = Base(version, content_hash(prepared.document), shown(prepared.document))
    drafts.published(number, prepared.revision.number, base, generation, writer.author)
    return generation


def build_only(writer: Writer, drafts: DraftStore, number: int, seen: int | None = None) -> None:
    """Builds what publishing a draft builds and asks the gate of the writer, but commits nothing."""
    prepared = ready(writer, drafts, number, seen=seen)
    asked = writer.gate

    def refuse(writer: Writer, contents: int) -> None:
        if asked is not None:
            asked(writer, contents)
        raise _BuiltError

    writer.gate = refuse
    try:
        publish_document(writer, prepared.document, prepared.draft.author, [])
    except _BuiltError:
        pass
    finally:
        writer.gate = asked


def write_to_git(
    tree: WorkingTree,
    catalogue: Catalogue,
    drafts: DraftStore,
    number: int,
    reading: FilePreparer,
    may_read: Callable[[int], bool],
) -> str:
    """Writes the file of a published draft and commits it; returns the commit. `may_read` says whether the publisher
    may read a version. Raises `SourceError` if the file is another document's, or if it would open the document."""
    draft, revision = drafts.get(number), drafts.revision(number)
    file = tree.file(draft.document, revision.name)
    data = _closed(reading, draft, revision)
    _check_owner(tree, file, catalogue, drafts, draft, may_read)
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
    tree: WorkingTree,
    file: Path,
    catalogue: Catalogue,
    drafts: DraftStore,
    draft: Draft,
    may_read: Callable[[int], bool],
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
    if file.exists() and not owned and file.read_bytes() not in drafts.published_files(draft.document):
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


def check_seen(draft: Draft, seen: int | None) -> None:
    """Raises `ConflictError` if the newest revision of a draft is not the one that was `seen`. None stands for any."""
    if seen is not None and seen != draft.revision:
        raise ConflictError(
            f"Draft {draft.number} has revision {draft.revision} now, and you read revision {seen}. Read it, then "
            "publish it.",
            draft.revision,
        )


def check_approved(draft: Draft, needed: int) -> None:
    """Raises `UsageError` if the newest revision of a draft has fewer approvals than needed."""
    if len(draft.approvals) < needed:
        people = "1 approval" if needed == 1 else f"{needed} approvals"
        raise UsageError(
            f"Revision {draft.revision} of draft {draft.number} needs {people} before it is published, and has "
            f"{len(draft.approvals)}. Submit it, and ask somebody who did not write it to approve it."
        )
