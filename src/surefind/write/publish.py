"""Drafts and retirement: a draft is written, reviewed and published, and a document can be retired.

    draft -> in review -> published -> retired

A draft is a version that no generation holds, so no search finds it. Publishing commits a generation in which the draft
replaces the document's earlier version. If the document has a file, the published version stays until the file changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from surefind.errors import SourceError, UsageError
from surefind.protocols import Retriever
from surefind.store.catalogue import Catalogue
from surefind.store.rows import State, Version
from surefind.store.versions import content_hash
from surefind.types import Document
from surefind.write.writer import Writer

_NO_SOURCE = 0
"""The source id of documents that come from no folder."""


def draft(writer: Writer, file: Path, document: str = "") -> Version:
    """Takes in a file as a draft of a document, which may be new."""
    reader = writer.reading.find(file.name)
    if reader is None:
        known = ", ".join(writer.reading.readers.suffixes())
        raise SourceError(f"No reader can read the file type of {file}. Known types: {known}.")
    if not file.is_file():
        raise SourceError(f"There is no file {file}. Check the path; nothing was changed.")
    limit = writer.reading.limits.file_mb
    if file.stat().st_size > limit * 1e6:
        raise SourceError(f"{file} is larger than {limit:g} MB (max_file_mb).")
    try:
        found = writer.reading.read(reader, file, document or file.name).documents
    except SourceError as error:
        raise SourceError(f"{file} {error}.") from None
    if len(found) != 1:
        raise SourceError(f"{file} holds {len(found)} documents. A draft must be one document.")
    catalogue = writer.catalogue
    made = _restricted(replace(found[0], id=document or found[0].id), catalogue)
    with catalogue.transaction():
        number = catalogue.versions.add(made, content_hash(made), _no_file(made.id), None, "draft", writer.author)
    return _version(writer, number, made.id)


def _restricted(made: Document, catalogue: Catalogue) -> Document:
    """Gives a draft without an access list that of its document. A file that was made elsewhere often has none, and
    would open a restricted document. `acl: [public]` opens it on purpose."""
    before = catalogue.versions.find(made.id, catalogue.contents())
    if before is None or made.acl:
        return made
    return replace(made, acl=catalogue.versions.document(before).acl)


def review(writer: Writer, number: int, state: State = "in review") -> Version:
    """Sets the state of a draft: `in review`, or `draft` to hand it back to its author."""
    found = _unpublished(writer, number)
    with writer.catalogue.transaction():
        writer.catalogue.versions.set_state(number, state)
    return _version(writer, number, found.document)


def publish(writer: Writer, number: int, retrievers: Sequence[Retriever]) -> int:
    """Commits a generation in which this draft replaces the document's earlier version. Returns its number."""
    found = _unpublished(writer, number)
    catalogue = writer.catalogue
    contents = writer.begin() + 1
    before = catalogue.versions.find(found.document, contents)
    retired = [v.number for v in catalogue.versions.in_state(("retired",), ()) if v.document == found.document]
    earlier = [*([before] if before else []), *retired]
    file = catalogue.versions.file_of(earlier[0]) if earlier else _no_file(found.document)
    with catalogue.transaction():
        catalogue.versions.release(earlier, contents)
        catalogue.versions.hold(number, contents)
    # Cut before set_file: if a model fails, `cut` has the version's file read again, and the next sync would replace
    # this version by the file.
    writer.cut(contents)
    catalogue.versions.set_file(number, file)
    return _committed(writer, contents, retrievers, f"publish {found.document}", {number: "published"})


def discard(writer: Writer, number: int) -> None:
    """Deletes a draft: sets its state to `published`, so that it counts as a version that no set holds."""
    _unpublished(writer, number)
    with writer.catalogue.transaction():
        writer.catalogue.versions.set_state(number, "published")
        writer.catalogue.versions.delete_unheld()


def retire(writer: Writer, document: str, retrievers: Sequence[Retriever]) -> int:
    """Commits a generation without this document and returns its number. The document's file stays where it is; a sync
    takes it in again only after it has changed."""
    catalogue = writer.catalogue
    contents = writer.begin() + 1
    number = catalogue.versions.find(document, contents)
    if number is None:
        raise UsageError(
            f"There is no document {document!r} in the current generation. List recent changes with: surefind diff."
        )
    with catalogue.transaction():
        catalogue.versions.release([number], contents)
    return _committed(writer, contents, retrievers, f"retire {document}", {number: "retired"})


def _committed(
    writer: Writer, contents: int, retrievers: Sequence[Retriever], reason: str, states: dict[int, State]
) -> int:
    """Cuts and indexes a set, asks the gate, commits the set, and sets the states of versions. Returns the generation's
    number."""
    writer.cut(contents)
    writer.build(contents, retrievers)
    writer.pass_gate(contents)
    with writer.catalogue.transaction():
        number = writer.catalogue.commit(contents, writer.author, reason)
        for version, state in states.items():
            writer.catalogue.versions.set_state(version, state)
    writer.sweep()
    return number


def _unpublished(writer: Writer, number: int) -> Version:
    """Returns the draft with this number; raises `UsageError` if there is none."""
    waiting = writer.catalogue.versions.in_state(("draft", "in review"), writer.catalogue.generations())
    found = next((version for version in waiting if version.number == number), None)
    if found is None:
        listed = ", ".join(f"{version.number} ({version.document})" for version in waiting) or "none"
        raise UsageError(f"Version {number} is not a draft. Drafts: {listed}.")
    return found


def _no_file(document: str) -> tuple[object, ...]:
    """Returns the file fields of a document that has no file."""
    return (_NO_SOURCE, document, 0, 0, 0, "", "")


def _version(writer: Writer, number: int, document: str) -> Version:
    history = writer.catalogue.versions.history(document, writer.catalogue.generations())
    return next(version for version in history if version.number == number)
