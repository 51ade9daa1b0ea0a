"""Opens generations for reading: the newest one, an earlier one that is kept, or the next one before it is published.

A reader of a published generation holds a lease on it. The newest generation is warmed up before the first search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from surefind.base.access import PathRule
from surefind.base.errors import NotBuiltError, UsageError
from surefind.base.protocols import Retriever, Services
from surefind.engine.search.reader import Searcher
from surefind.engine.store import lease
from surefind.engine.store.backend import Backend, Contents, View
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.lease import Lease
from surefind.engine.store.rows import Generation


@dataclass(frozen=True)
class Opening:
    """Opens the generations of a knowledge base in one layout."""

    catalogue: Catalogue
    backend: Backend
    layout: str
    services: Services
    rules: Sequence[PathRule]
    required: Sequence[Retriever]
    """The retrievers whose indexes a generation must have before it replaces another."""
    awaited: Sequence[Retriever] = ()
    """The retrievers that a search does without as long as they have no index."""

    def open(self, earlier: Searcher | None) -> Searcher:
        """Opens the newest generation. With an `earlier` reader, opens the same indexes and masks as that one."""
        generation, held = self.catalogue.leased()
        try:
            view = self._view(generation.contents)
            if earlier is not None:
                self._check(view.missing(self.required))
                view.warm(earlier.view, self.required)
        except BaseException:
            held.release()
            raise
        return Searcher(generation, self.catalogue, view, self.services, held, self.awaited)

    def kept(self, number: int) -> Searcher:
        """Opens a generation that is kept. Raises `UsageError` if there is no such generation."""
        self.catalogue.kept(number)
        held = lease.take(self.catalogue.path.parent, number)
        if held is None:
            raise UsageError(f"Generation {number} is being deleted by another process. Choose a later one.")
        try:
            generation = self.catalogue.kept(number)  # a writer may have deleted it before it had a lease
            view = self._view(generation.contents)
            return Searcher(generation, self.catalogue, view, self.services, held, self.awaited)
        except BaseException:
            held.release()
            raise

    def unpublished(self, contents: int) -> Searcher:
        """Opens a set of documents that no generation shows yet, as the generation that it will be. Only the writer may
        do so: no lease protects it."""
        members = self.catalogue.members(contents)
        next_one = Generation(self.catalogue.generation() + 1, "", len(members), contents)
        return Searcher(next_one, self.catalogue, self._view(contents), self.services, Lease(None))

    def _view(self, contents: int) -> View:
        members = partial(self.catalogue.members, contents)
        shown = Contents(contents, members, self.catalogue.digest(contents))
        return self.backend.open(shown, self.layout, self.services, self.rules)

    def _check(self, missing: Sequence[Retriever]) -> None:
        """Raises `NotBuiltError` if required indexes are missing, so that the current generation is not replaced."""
        if missing:
            listed = ", ".join(sorted({retriever.name for retriever in missing}))
            raise NotBuiltError(f"The newest generation has no index for {listed} yet. Build it with: surefind sync.")
