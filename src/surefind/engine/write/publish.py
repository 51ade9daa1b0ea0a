"""Publishing and retiring single documents: each commits a generation of its own.

A published version takes the place of the document's earlier version. If the document has a file, the published version
stays until the file changes. `surefind.kb.drafts` has the drafts that are published.
"""

from __future__ import annotations

from collections.abc import Sequence

from surefind.base.errors import UsageError
from surefind.base.names import document_name
from surefind.base.protocols import Retriever
from surefind.base.types import Document
from surefind.engine.store.rows import State
from surefind.engine.store.versions import content_hash
from surefind.engine.write.writer import Writer

_NO_SOURCE = 0
"""The source id of documents that come from no folder."""


def publish(writer: Writer, made: Document, author: str, retrievers: Sequence[Retriever]) -> tuple[int, int]:
    """Commits a generation in which this document replaces its earlier version. Returns the numbers of the generation
    and of the version."""
    versions = writer.catalogue.versions
    contents = writer.begin() + 1
    before = versions.find(made.id, contents)
    retired = [v.number for v in versions.in_state(("retired",), ()) if v.document == made.id]
    earlier = [*([before] if before else []), *retired]
    no_file = (_NO_SOURCE, made.id, 0, 0, 0, "", "")
    file = versions.file_of(earlier[0]) if earlier else no_file
    with writer.catalogue.transaction():
        versions.release(earlier, contents)
        number = versions.add(made, content_hash(made), no_file, contents, author)
    # Cut before set_file: if a model fails, `cut` has the version's file read again, and the next sync would replace
    # this version by the file.
    writer.cut(contents)
    versions.set_file(number, file)
    return _committed(writer, contents, retrievers, f"publish {made.id}", {}), number


def retire(writer: Writer, document: str, retrievers: Sequence[Retriever]) -> int:
    """Commits a generation without this document and returns its number. The document's file stays where it is; a sync
    takes it in again only after it has changed."""
    catalogue = writer.catalogue
    contents = writer.begin() + 1
    number = catalogue.versions.find(document, contents)
    if number is None:
        document_name(document)
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
