"""The writer: the one process that may change a knowledge base. It holds the lock for as long as it lives.

with Writer(data, layout, services, reading, …) as writer:
    sync(writer, retrievers, [Path("docs")])
"""

from __future__ import annotations

import contextlib
import getpass
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from surefind.errors import UsageError
from surefind.protocols import OnProgress, Retriever
from surefind.services import Services
from surefind.store import lease
from surefind.store.backend import Backend, Contents, Delta
from surefind.store.backends.local import LocalBackend
from surefind.store.catalogue import Catalogue
from surefind.store.lock import writer_lock
from surefind.store.rows import Generation
from surefind.write.intake import BATCH, Problem, cut
from surefind.write.layout import Layout
from surefind.write.reading import Reading


class Writer:
    def __init__(
        self,
        data: Path,
        layout: Layout,
        services: Services,
        reading: Reading,
        exclude: Sequence[str] = (),
        keep: int = 3,
        report: OnProgress | None = None,
    ) -> None:
        self.data = data
        self.layout = layout
        self.services = services
        self.reading = reading
        self.exclude = exclude
        self.keep = keep
        self.report: OnProgress = report or (lambda what, done, total: None)
        self.author = _author()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.report = _both(stack.enter_context(writer_lock(self.data)), self.report)
            self.catalogue = Catalogue(self.data)
            stack.callback(self.catalogue.close)
            stack.enter_context(self.reading)
            self.backend: Backend = LocalBackend(self.catalogue)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.__exit__(kind, error, at)

    # ------------------------------------------------------------ chunks and indexes

    def contents(self, number: int) -> Contents:
        return Contents(number, partial(self.catalogue.members, number))

    def cut(self, contents: int) -> list[Problem]:
        """Cut the versions of a set that this layout has not seen: all of them after a change of chunker."""
        problems: list[Problem] = []
        waiting = self.backend.uncut(contents, str(self.layout))
        for at in range(0, len(waiting), BATCH):
            made, wanting = [], []
            for i, version in enumerate(waiting[at : at + BATCH], at):
                self.report("Chunking", i, len(waiting))
                document = self.catalogue.versions.document(version)
                chunks, missed = cut(self.layout, document, self.services)
                made.append(Delta(str(self.layout), version, chunks))
                if missed:
                    wanting.append(version)
                    problems.append(Problem(document.id, missed))
            with self.catalogue.transaction():
                self.backend.write(made)
                for version in wanting:
                    self.catalogue.versions.distrust(version)
        return problems

    def build(self, contents: int, retrievers: Sequence[Retriever]) -> list[str]:
        """Make a set searchable by these retrievers. Returns the names of the indexes that were built."""
        return self.backend.build(self.contents(contents), str(self.layout), retrievers, self.services, self.report)

    def count(self, contents: int) -> int:
        """The chunks of a set."""
        return len(self.backend.open(self.contents(contents), str(self.layout), self.services, ()))

    # ------------------------------------------------------------ generations

    def begin(self) -> int:
        """Undo what an interrupted writer left. Returns the set that new versions are written on top of."""
        gone = self.catalogue.sweep_pending()
        self.backend.discard(self.catalogue.newest(), gone)
        return self.catalogue.base()

    def rollback(self, number: int) -> Generation:
        """A new generation that shows what generation `number` showed."""
        kept = self.catalogue.generations()
        earlier = next((one for one in kept if one.number == number), None)
        if earlier is None:
            listed = ", ".join(str(one.number) for one in kept) or "none"
            raise UsageError(f"There is no generation {number}. Those that are kept: {listed}.")
        self.catalogue.rollback(earlier, self.author)
        return earlier

    def sweep(self) -> None:
        """Forget generations beyond the last `keep`, but none that a reader, in any process, still uses."""
        generations = self.catalogue.generations()
        keep = {one.contents for one in generations[-self.keep :]}
        keep.add(self.catalogue.contents())
        with contextlib.ExitStack() as held:
            doomed = [one for one in generations if one.contents not in keep]
            free = {one.number: held.enter_context(lease.sweeping(self.data, one.number)) for one in doomed}
            keep |= {one.contents for one in doomed if not free[one.number]}
            gone = self.catalogue.sweep(keep)
            self.backend.sweep(keep, gone)


def _both(first: OnProgress, second: OnProgress) -> OnProgress:
    def report(what: str, done: int, total: int) -> None:
        first(what, done, total)
        second(what, done, total)

    return report


def _author() -> str:
    """Who writes: $SUREFIND_AUTHOR, or the user's name on this machine."""
    try:
        return os.environ.get("SUREFIND_AUTHOR") or getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may know no name for its user
        return ""
