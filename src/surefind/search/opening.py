"""Opening the newest generation for reading: held against sweeping, and warm before anybody is sent to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from surefind.access import PathRule
from surefind.errors import NotBuiltError
from surefind.protocols import Retriever
from surefind.search.reader import Reader
from surefind.services import Services
from surefind.store import lease
from surefind.store.backend import Backend, Contents
from surefind.store.catalogue import Catalogue
from surefind.store.lease import Lease
from surefind.store.lock import nothing_yet
from surefind.store.rows import Generation


@dataclass(frozen=True)
class Opening:
    """How the generations of a knowledge base are opened in one layout."""

    catalogue: Catalogue
    backend: Backend
    layout: str
    services: Services
    rules: Sequence[PathRule]
    required: Sequence[Retriever]
    """What a generation must be searchable by before it takes the place of another."""

    def open(self, earlier: Reader | None) -> Reader:
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
        """The newest generation, with a lease on it. A writer may sweep it between the two: then there is a newer."""
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
        """A generation that cannot answer what is asked of the current one does not take its place."""
        if missing:
            listed = ", ".join(sorted({one.name for one in missing}))
            raise NotBuiltError(f"The newest generation has no index for {listed} yet. Run: surefind sync.")
