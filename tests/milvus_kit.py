"""A catalogue with a backend, to which tests commit sets of documents of one chunk each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from surefind.base.protocols import Retriever
from surefind.base.types import Chunk, Document
from surefind.engine.services import LocalServices
from surefind.engine.store.backend import Backend, Contents, Delta
from surefind.engine.store.catalogue import Catalogue


class Shelf:
    layout = "whole"

    def __init__(self, folder: Path, make: Callable[[Catalogue], Backend], retrievers: Sequence[Retriever]) -> None:
        self.catalogue = Catalogue(folder)
        self.backend = make(self.catalogue)
        self.retrievers = retrievers
        self.services = LocalServices()
        self._held: dict[str, tuple[int, Document]] = {}
        self._shown: dict[int, dict[str, tuple[int, Document]]] = {}

    def close(self) -> None:
        self.catalogue.close()

    def stage(self, documents: Mapping[str, Document]) -> int:
        """Writes the next set and its indexes, without committing it."""
        number = self.catalogue.base() + 1
        gone = [key for key, (_, known) in self._held.items() if documents.get(key) != known]
        with self.catalogue.transaction():
            self.catalogue.versions.release([self._held.pop(key)[0] for key in gone], number)
            for key, document in documents.items():
                if key not in self._held:
                    self._held[key] = self._add(document, number), document
        self.backend.build(self.contents(number), self.layout, self.retrievers, self.services, lambda *_: None)
        return number

    def commit(self, documents: Mapping[str, Document]) -> int:
        number = self.stage(documents)
        with self.catalogue.transaction():
            self.catalogue.commit(number)
        self._shown[number] = dict(self._held)
        return number

    def rollback(self, number: int) -> None:
        """Shows an earlier set again."""
        earlier = next(one for one in self.catalogue.generations() if one.contents == number)
        with self.catalogue.transaction():
            self.catalogue.rollback(earlier)
        self._held = dict(self._shown[number])

    def undo(self, number: int) -> None:
        """Deletes what was staged since set `number` was committed, as the next writer does."""
        self.backend.discard(self.catalogue.newest(), self.catalogue.sweep_pending())
        self._held = dict(self._shown[number])

    def sweep(self, keep: set[int]) -> None:
        self.backend.sweep(keep, self.catalogue.sweep(keep))

    def contents(self, number: int) -> Contents:
        return Contents(number, partial(self.catalogue.members, number))

    def _add(self, document: Document, number: int) -> int:
        content = hashlib.blake2b(repr(document).encode(), digest_size=16).hexdigest()
        version = self.catalogue.versions.add(document, content, (0, document.id, 0, 0, 0, "", ""), number)
        self.backend.write([Delta(self.layout, version, [Chunk(document.id, 0, len(document.text), document.text)])])
        return version
