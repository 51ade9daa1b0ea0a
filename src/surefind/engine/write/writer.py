"""The writer: the only object that may change a knowledge base. It holds the writer's lock while it is open.

with Writer(data, layout, services, reading, …) as writer:
    sync(writer, retrievers, [Path("docs")])
"""

from __future__ import annotations

import contextlib
import getpass
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from surefind.base.abilities import declared
from surefind.base.access import checked_name
from surefind.base.errors import NotBuiltError, SourceError
from surefind.base.protocols import OnProgress, Retriever, Services
from surefind.base.running.cores import collecting_seldom
from surefind.engine.files.scan import FileRules
from surefind.engine.store import lock
from surefind.engine.store.backend import Backend, Contents, Delta
from surefind.engine.store.backends.local import LocalBackend
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.indexes import needed
from surefind.engine.store.lock import writer_lock
from surefind.engine.store.rows import Generation
from surefind.engine.write.layout import Layout
from surefind.engine.write.reading import Cut, FilePreparer, batches, cut_each

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
