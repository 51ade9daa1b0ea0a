"""The writer: the only object that may change a knowledge base. It holds the writer's lock while it is open.

    with Writer(data, layout, services, reading, …) as writer:
        sync(writer, retrievers, [Path("docs")])

A single document is published or retired in a generation of its own. A published version takes the place of the
document's earlier version. If the document has a file, the published version stays until the file changes.
`surefind.kb.drafts` has the drafts that are published.

The parts of large indexes are merged while others read and write: the merge reads a generation on which it holds a
lease, and writes beside the indexes. It holds the writer's lock only while its result is taken in. A merge that was
killed leaves files that the next writer deletes.
"""

from __future__ import annotations

import contextlib
import getpass
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from surefind.base.abilities import declared
from surefind.base.access import checked_name
from surefind.base.errors import NotBuiltError, SourceError, UsageError
from surefind.base.names import document_name
from surefind.base.protocols import OnProgress, Retriever, Services
from surefind.base.running import collecting_seldom
from surefind.base.types import Document
from surefind.engine.files.scan import FileRules
from surefind.engine.store import lock
from surefind.engine.store.backend import Backend, Contents, Delta, Merged
from surefind.engine.store.backends.local import LocalBackend
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.indexes import needed
from surefind.engine.store.lock import merging_lock, patiently, writer_lock
from surefind.engine.store.versions import Generation, State, content_hash
from surefind.engine.write.layout import Layout
from surefind.engine.write.preparing import Cut, FilePreparer, batches, cut_each

MANY = 64
"""Texts to embed, from which on documents are published before: by their words. They take two seconds or more."""
_JUDGED = 256
"""Chunks by which the work is judged."""


@dataclass(frozen=True)
class Uncut:
    """A document that was not cut, or not as it should be."""

    version: int
    document: str
    reason: str
    refused: bool
    """Whether it has no chunks, because it exceeds a limit."""


class Writer:
    """Cuts documents, builds indexes, commits generations and deletes old ones. Use it as a context manager."""

    def __init__(
        self,
        data: Path,
        layout: Layout,
        services: Services,
        reading: FilePreparer,
        files: FileRules | None = None,
        keep: int = 3,
        report: OnProgress | None = None,
        gate: Callable[[Writer, int], None] | None = None,
        backend: Callable[[Catalogue], Backend] = LocalBackend,
        author: str = "",
    ) -> None:
        """`gate` is called with each new set of documents before it is published, and raises an error to refuse it.
        `backend` makes the backend that the chunks are written to."""
        self.data = data
        self.layout = layout
        self.services = services
        self.reading = reading
        self.files = files or FileRules()
        self.keep = keep
        self.report: OnProgress = report or (lambda what, done, total: None)
        self.gate = gate
        self._make_backend = backend
        self.author = author
        self._stack = contextlib.ExitStack()
        self.catalogue: Catalogue
        self.backend: Backend

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.report = both(stack.enter_context(writer_lock(self.data)), self.report)
            stack.enter_context(collecting_seldom())
            self.catalogue = Catalogue(self.data)
            stack.callback(self.catalogue.close)
            stack.callback(self.catalogue.end_session)
            self.backend = self._make_backend(self.catalogue)
            stack.enter_context(self.reading)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.__exit__(kind, error, at)

    # ------------------------------------------------------------ chunks and indexes

    def contents(self, number: int) -> Contents:
        """Returns the set with this number, as backends take it."""
        members = partial(self.catalogue.members, number)
        return Contents(number, members, self.catalogue.digest(number))

    def cut(self, contents: int, skip: bool = False) -> list[Uncut]:
        """Cuts the versions of a set that are not cut in this layout yet: all of them after a change of chunker.
        Returns the documents for which a model failed; the next sync reads them again. Raises `SourceError` if a
        document cannot be cut within the limits; with `skip`, it gets no chunks and is returned with the reason."""
        uncut = self.backend.uncut(contents, str(self.layout))
        documents = map(self.catalogue.versions.document, uncut)
        made = zip(uncut, cut_each(self.layout, documents, len(uncut), self.reading, self.services), strict=True)
        problems: list[Uncut] = []
        for batch in batches(self._reported(made, len(uncut)), lambda pair: pair[1].size):
            with self.catalogue.transaction():
                for version, cut_document in batch:
                    if cut_document.refused and not skip:
                        advice = "Change the document or the limit."
                        raise SourceError(
                            f"{cut_document.document} {cut_document.refused}, while {self.layout} cut it. {advice}"
                        )
                    self.backend.write([Delta(str(self.layout), version, cut_document.chunks)])
                    if cut_document.missed:
                        self.catalogue.versions.reread_file(version)
                    if cut_document.missed or cut_document.refused:
                        problems.append(
                            Uncut(
                                version,
                                cut_document.document,
                                cut_document.missed or cut_document.refused,
                                bool(cut_document.refused),
                            )
                        )
        return problems

    def _reported(self, made: Iterable[tuple[int, Cut]], total: int) -> Iterator[tuple[int, Cut]]:
        for done, pair in enumerate(made):
            self.report("Chunking", done, total)
            yield pair
        if total:
            self.report("Chunking", total, total)

    def build(self, contents: int, retrievers: Sequence[Retriever]) -> list[str]:
        """Makes a set searchable by these retrievers. Returns the names of the retrievers whose indexes were built."""
        return self.backend.build(self.contents(contents), str(self.layout), retrievers, self.services, self.report)

    def lacking(self, contents: int, retrievers: Sequence[Retriever]) -> list[Retriever]:
        """Returns the retrievers, of these and the ones they use, that have no index of a published set. None of a set
        that cannot be opened: it is made again."""
        try:
            view = self.backend.open(self.contents(contents), str(self.layout), self.services, ())
        except NotBuiltError:
            return []
        return view.missing(retrievers)

    def takes_long(self, contents: int, retrievers: Sequence[Retriever]) -> bool:
        """Returns whether building the indexes of these retrievers computes much that no cache holds, judged by some of
        the chunks. The set must have been built by a retriever that needs only words."""
        for retriever in needed(retrievers, self.services):
            new = self.backend.new_chunks(self.contents(contents), str(self.layout), retriever, self.services)
            some = [new[i] for i in range(0, len(new), len(new) // _JUDGED + 1)]
            lacking = declared(retriever).lacking(some, self.services) if len(new) > MANY else 0
            if lacking / max(1, len(some)) * len(new) > MANY:
                return True
        return False

    def show_again(self) -> None:
        """Lets readers open the current set again, because more of its indexes are there."""
        self.catalogue.show_again(self.author)
        self.sweep()

    def count(self, contents: int) -> int:
        """Returns the number of chunks of a set."""
        return len(self.backend.open(self.contents(contents), str(self.layout), self.services, ()))

    # ------------------------------------------------------------ generations

    def begin(self) -> int:
        """Undoes the work of an interrupted writer. Returns the number of the set to which new versions are added. The
        set that readers see must not have lost documents, or the next one would lack them (`DamagedError`)."""
        self._undo()
        current = self.catalogue.snapshot_id()
        self.catalogue.versions.check_set(current, self.catalogue.versions.held(current))
        return self.catalogue.base()

    def pass_gate(self, contents: int) -> None:
        """Asks the gate about a set that is built but not published yet. If the gate raises an error, the set is
        deleted and the error goes on. The first generation has none before it to be compared with, so it passes."""
        if self.gate is None or self.catalogue.current() is None:
            return
        try:
            self.gate(self, contents)
        except BaseException:
            self._undo()
            self.sweep()
            raise

    def _undo(self) -> None:
        """Deletes everything that was written since the last commit."""
        gone = self.catalogue.sweep_pending()
        self.backend.discard(self.catalogue.newest(), gone)

    def rollback(self, number: int) -> Generation:
        """Commits a new generation that shows the set of generation `number`. Returns the earlier generation."""
        earlier = self.catalogue.kept(number)
        self.catalogue.rollback(earlier, self.author)
        return earlier

    def sweep(self) -> None:
        """Deletes all but the last `keep` generations, except those that a reader, in any process, still uses."""
        generations = self.catalogue.generations()
        replaced = [earlier for earlier, later in pairwise(generations) if earlier.is_replaced_by(later)]
        lasting = [generation for generation in generations if generation not in replaced]
        keep = {generation.contents for generation in lasting[-self.keep :]}
        keep.add(self.catalogue.snapshot_id())
        with contextlib.ExitStack() as held:
            old = [shown for shown in generations if shown.contents not in keep or shown in replaced]
            unused = {
                generation.number: held.enter_context(lock.sweeping(self.data, generation.number)) for generation in old
            }
            keep |= {generation.contents for generation in old if not unused[generation.number]}
            gone = self.catalogue.sweep(keep, [earlier.number for earlier in replaced if unused[earlier.number]])
            self.backend.sweep(keep, gone)


def both(first: OnProgress, second: OnProgress) -> OnProgress:
    """Returns a callback that reports progress to both."""

    def report(what: str, done: int, total: int) -> None:
        first(what, done, total)
        second(what, done, total)

    return report


def this_user() -> str:
    """Returns the author of changes: $SUREFIND_AUTHOR, or the user's name on this machine."""
    try:
        if named := os.environ.get("SUREFIND_AUTHOR"):
            return checked_name(named, "person ($SUREFIND_AUTHOR)")
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # in a container the user may have no name
        return ""


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
