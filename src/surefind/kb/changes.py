"""Compares two generations: which documents were added, removed or changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from surefind.base.errors import NothingIndexedError, UsageError
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.database import explaining
from surefind.engine.store.versions import Generation
from surefind.kb.drafts.difference import unified


@dataclass(frozen=True)
class Difference:
    """The documents that differ between two generations."""

    before: int
    """The number of the earlier generation."""
    after: int
    """The number of the later generation."""
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


def compare(catalogue: Catalogue, before: int | None = None, after: int | None = None) -> Difference:
    """Compares two generations; without numbers, the current generation with the one before it."""
    with explaining(catalogue.path.parent):
        first, second = _pair(catalogue, before, after)
        old, new = ({m.document: m.content for m in catalogue.members(g.contents)} for g in (first, second))
    return difference(first.number, second.number, old, new)


def difference(before: int, after: int, old: Mapping[str, str], new: Mapping[str, str]) -> Difference:
    """Compares the documents of two generations, given as the hash of each document's content by its id."""
    return Difference(
        before,
        after,
        sorted(new.keys() - old.keys()),
        sorted(old.keys() - new.keys()),
        sorted(document for document in old.keys() & new.keys() if old[document] != new[document]),
    )


def compare_texts(
    catalogue: Catalogue, document: str, before: int | None = None, after: int | None = None
) -> list[str]:
    """Compares a document's text in two generations. Returns the lines that differ, as `diff -u` writes them."""
    with explaining(catalogue.path.parent):
        first, second = _pair(catalogue, before, after)
        sets = (
            {m.document: m.version for m in catalogue.members(generation.contents)} for generation in (first, second)
        )
        versions = [members.get(document) for members in sets]
        if versions == [None, None]:
            raise UsageError(f"Neither generation has a document {document!r}. List what changed with: surefind diff.")
        old, new = ("" if v is None else catalogue.versions.document(v).text for v in versions)
    return unified(old, new, (f"{document} (generation {first.number})", f"{document} (generation {second.number})"))


def _pair(catalogue: Catalogue, before: int | None, after: int | None) -> tuple[Generation, Generation]:
    numbers = [generation.number for generation in catalogue.generations()]
    if not numbers:
        raise NothingIndexedError("Nothing is published yet. Fill the knowledge base with: surefind sync FOLDER.")
    second = numbers[-1] if after is None else after
    earlier = [number for number in numbers if number < second]
    first = (earlier[-1] if earlier else second) if before is None else before
    return catalogue.kept(first), catalogue.kept(second)
