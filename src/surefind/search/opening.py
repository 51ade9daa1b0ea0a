"""Opens the newest generation for reading: takes a lease on it, and warms it up before the first search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from surefind.access import PathRule
from surefind.errors import NotBuiltError
from surefind.protocols import Retriever, Services
from surefind.search.reader import Reader
from surefind.store import lease
from surefind.store.backend import Backend, Contents
from surefind.store.catalogue import Catalogue
from surefind.store.lease import Lease
from surefind.store.lock import nothing_yet
from surefind.store.rows import Generation


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

    def open(self, earlier: Reader | None) -> Reader:
        """Opens the newest generation. With an `earlier` reader, opens the same indexes and masks as that one."""
        generation, held = self._held()
        try:
            contents = Contents(generation.contents, partial(self.catalogue.members, generation.contents))
            view = self.backend.open(contents, self.layout, self.services, self.rules)
            if earlier is not None:
                self._check(view.missing(self.required))
                view.warm(earlier.view, self.required)
        except BaseException:
            held.release()
            raise
        return Reader(generation, self.catalogue, view, self.services, held)

    def _held(self) -> tuple[Generation, Lease]:
        """Returns the newest generation and a lease on it. If a writer deletes the generation before it has a lease,
        there is a newer one, and the loop takes that."""
        while True:
            generation = self.catalogue.current()
            if generation is None:
                raise nothing_yet(self.catalogue.path.parent, "There is no knowledge base here yet.")
            held = lease.take(self.catalogue.path.parent, generation.number)
            if held is not None:
                if any(one.number == generation.number for one in self.catalogue.generations()):
                    return generation, held
                held.release()

    def _check(self, missing: Sequence[Retriever]) -> None:
        """Raises `NotBuiltError` if required indexes are missing, so that the current generation is not replaced."""
        if missing:
            listed = ", ".join(sorted({one.name for one in missing}))
            raise NotBuiltError(f"The newest generation has no index for {listed} yet. Build it with: surefind sync.")
