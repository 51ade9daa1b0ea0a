"""Gives documents ids that no other document of the set has."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, count

from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.rows import Source


@dataclass(frozen=True)
class Ids:
    """The ids of the documents of a set, during one sync."""

    catalogue: Catalogue
    contents: int
    _numbers: dict[tuple[int, str, str], int] = field(default_factory=dict)
    """The last number that was added to an id of a file. A file may repeat an id a million times, and looking from 2
    on each time would take the square of that."""

    def of_file(self, source: Source, relative: str) -> str:
        """The path inside the source. If another source has the same path, this source's name is put in front."""
        document_id = relative
        while (owner := self._owner(document_id)) and owner[0] != source.id:
            document_id = f"{source.name}/{document_id}"
        return document_id

    def free(self, document_id: str, source: Source, path: str) -> str:
        """Makes an id unique. Records have their own ids, and two files, or two records of one file, may use the same
        one. Then the source's name, or also the file's path, is put in front; within a file a number is added."""
        owner = self._owner(document_id)
        if owner is None:
            return document_id
        key = (source.id, path, document_id)
        numbered = ((f"{document_id}#{number}", number) for number in count(self._numbers.get(key, 1) + 1))
        names = (
            (f"{source.name}/{document_id}", f"{source.name}/{path}/{document_id}")
            if owner != (source.id, path)
            else ()
        )
        found, number = next(
            pair for pair in chain(((name, 1) for name in names), numbered) if self._owner(pair[0]) is None
        )
        self._numbers[key] = number
        return found

    def _owner(self, document_id: str) -> tuple[int, str] | None:
        return self.catalogue.versions.owner_of(document_id, self.contents)
