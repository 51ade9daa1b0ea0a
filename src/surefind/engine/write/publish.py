"""Publishing and retiring single documents: each commits a generation of its own.

A published version takes the place of the document's earlier version. If the document has a file, the published version
stays until the file changes. `surefind.kb.drafts` has the drafts that are published.

Merges the parts of large indexes while others read and write.

The merge reads a generation on which it holds a lease, and writes beside the indexes. It holds the writer's lock only
while its result is taken in. A merge that was killed leaves files that the next writer deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

from surefind.base.errors import UsageError
from surefind.base.names import document_name
from surefind.base.protocols import OnProgress, Retriever, Services
from surefind.base.types import Document
from surefind.engine.store.backend import Backend, Contents, Merged
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.lock import merging_lock, patiently
from surefind.engine.store.rows import State
from surefind.engine.store.versions import content_hash
from surefind.engine.write.writer import Writer, both

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


_WAIT_SECONDS = 600.0
"""How long a merge waits for a writer to end. After that its result is lost, and the next merge begins again."""


def merge(
    catalogue: Catalogue,
    backend: Backend,
    layout: str,
    retrievers: Sequence[Retriever],
    services: Services,
    writer: Callable[[], AbstractContextManager[Writer]],
    report: OnProgress | None = None,
) -> list[str]:
    """Merges the parts of the current indexes of these retrievers, where it is worth the time. `writer` opens the
    writer. Returns the names of the merged indexes. Raises `LockedError` if another process merges."""
    merged = []
    for retriever in backend.crowded(catalogue.snapshot_id(), layout, retrievers, services):
        with merging_lock(catalogue.path.parent) as note:
            generation, held = catalogue.leased()
            with held:
                number = generation.contents
                if not backend.crowded(number, layout, [retriever], services):
                    continue  # another process has merged it, or written another index
                contents = Contents(number, partial(catalogue.members, number), catalogue.digest(number))
                progress = both(note, report) if report else note
                made = backend.merge(contents, layout, retriever, services, progress)
                if made and patiently(partial(_take, writer, layout, made), _WAIT_SECONDS):
                    merged.append(retriever.name)
    return merged


def _take(writer: Callable[[], AbstractContextManager[Writer]], layout: str, merged: Merged) -> bool:
    with writer() as current:
        contents = current.contents(current.catalogue.snapshot_id())
        return current.backend.take_merged(contents, layout, merged, current.services)
