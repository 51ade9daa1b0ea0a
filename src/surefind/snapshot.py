"""One committed generation as a reader sees it: chunks by ordinal, their texts, and who may see them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest
from typing import Any

import numpy as np

from surefind.errors import StoreError, UsageError
from surefind.protocols import SKETCH
from surefind.store.catalogue import Catalogue
from surefind.text.places import location
from surefind.types import BoolArray, Chunk, IntArray

EVERYTHING = "*"
"""The group that may read every document: for the owner of the knowledge base and for benchmarks."""

_CONTEXT_FORMAT = 2
"""Raised when a chunker or an enricher writes other context for the same chunks."""
_WRITTEN = re.compile(r"\bllm_")
"""Layouts whose contexts a language model writes: they do not follow from the document and the layout."""
_FILTER = re.compile(r"([^!<>=]+)(!=|>=|<=|=)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Filter:
    """`status=approved`, `tags!=draft`, `effective>=2025-01-01`, `doc_type=sop,policy` (any of them)."""

    key: str
    operator: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Filter:
        match = _FILTER.fullmatch(text.strip())
        if match:
            key, operator, value = match.groups()
            return cls(key.strip(), operator, tuple(part.strip().lower() for part in value.split(",")))
        raise UsageError(
            f"Cannot read the filter {text!r}. Write it like status=approved, tags!=draft or effective>=2025-01-01."
        )

    def accepts(self, metadata: dict[str, Any]) -> bool:
        value = metadata.get(self.key)
        items = value if isinstance(value, list) else [] if value is None else [value]
        found = [str(item).lower() for item in items]
        if self.operator == "!=":
            return not set(found) & set(self.values)
        if self.operator == "=":
            return bool(set(found) & set(self.values))
        return any(_compare(item, self.operator, self.values[0]) for item in found)


def _compare(item: str, operator: str, value: str) -> bool:
    """As numbers if both are, else as text, which is right for ISO dates."""
    try:
        left, right = float(item), float(value)
    except ValueError:
        return item >= value if operator == ">=" else item <= value
    return left >= right if operator == ">=" else left <= right


class Snapshot:
    def __init__(self, catalogue: Catalogue, generation: int, layout: str) -> None:
        self.catalogue = catalogue
        self.generation = generation
        self.layout = layout
        self._layout_id = catalogue.layout_id(layout)
        self.rows = self._chunk_rows()

    def _chunk_rows(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """(document row, seq, start, end, start and end of what is returned) per ordinal."""
        if self._layout_id is None:
            return np.zeros((0, 6), np.int64)
        rows = self.catalogue.chunk_rows(self._layout_id, self.generation)
        return np.array(rows, dtype=np.int64).reshape(-1, 6)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def complete(self) -> bool:
        """Whether every document of the generation was cut in this layout."""
        if self._layout_id is None:
            return not self.catalogue.document_rows(self.generation)
        return not self.catalogue.unchunked(self._layout_id, self.generation)

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal documents cut in the same places, wherever and whenever they were synced. The places count
        and not only the layout's name: another release may cut the same text elsewhere."""
        digest = hashlib.blake2b(f"{self.layout}\0{_CONTEXT_FORMAT}".encode(), digest_size=16)
        for _, id, content in self.catalogue.document_rows(self.generation):
            digest.update(f"{id}\0{content}\0".encode())
        digest.update(np.ascontiguousarray(self.rows[:, 2:]).tobytes())
        if _WRITTEN.search(self.layout) and self._layout_id is not None:
            for context in self.catalogue.contexts(self._layout_id, self.generation):
                digest.update(f"{context}\0".encode())
        return digest.hexdigest()

    @cached_property
    def families(self) -> IntArray | None:
        """For each ordinal the number of its parent, where several chunks share one: a search returns it once."""
        if (self.rows[:, 2:4] == self.rows[:, 4:]).all():
            return None
        parents, numbers = np.unique(self.rows[:, [0, 4, 5]], axis=0, return_inverse=True)
        return numbers.reshape(-1).astype(np.int32) if len(parents) < len(self.rows) else None

    @cached_property
    def sketch(self) -> tuple[int, ...]:
        """The least hashes of ids and contents: two sketches tell how much two corpora have in common."""
        rows = self.catalogue.document_rows(self.generation)
        hashes = (hashlib.blake2b(f"{id}\0{content}".encode(), digest_size=6).digest() for _, id, content in rows)
        return tuple(nsmallest(SKETCH, (int.from_bytes(digest) for digest in hashes)))

    def chunks(self) -> list[Chunk]:
        return list(self.catalogue.chunks(self._layout_id, self.generation)) if self._layout_id is not None else []

    @cached_property
    def document_ids(self) -> list[str]:
        """The document of each ordinal."""
        names = {row: id for row, id, _ in self.catalogue.document_rows(self.generation)}
        return [names[row] for row in self.rows[:, 0].tolist()]

    def entry(self, ordinal: int, returned: bool = False) -> tuple[Chunk, str, dict[str, Any]]:
        """The chunk (or what a search returns in its place), its document's title and metadata."""
        document, seq = self.rows[ordinal, :2].tolist()
        found = self.catalogue.chunk(self._layout_id or 0, document, seq, returned)
        if found is None:
            raise StoreError("The knowledge base was rewritten twice while this search ran. Search again.")
        return found

    def location(self, ordinal: int, start: int, end: int) -> str:
        """Where a span of a chunk's document stands in its source: `page 3`; empty where there is no such thing."""
        return location(self.catalogue.places(int(self.rows[ordinal, 0])), start, end)

    def matched(self, ordinal: int) -> tuple[int, int] | None:
        """The chunk's own span, where a search returns another one."""
        start, end, *returned = self.rows[ordinal, 2:].tolist()
        return None if [start, end] == returned else (start, end)

    def __getitem__(self, ordinals: Sequence[int]) -> list[Chunk]:
        return [self.entry(int(ordinal))[0] for ordinal in ordinals]

    # ------------------------------------------------------------ access and filters

    def allow(self, where: Sequence[Filter], groups: Iterable[str]) -> tuple[BoolArray | None, int]:
        """The chunks a caller may see, or None for all, and how many documents are left out."""
        mine = set(groups)
        hidden = self._hidden(mine) if EVERYTHING not in mine else set()
        if where:
            hidden |= {
                row for row, metadata, _ in self.catalogue.metadata(self.generation)
                if not all(one.accepts(metadata) for one in where)
            }  # fmt: skip
        if not hidden:
            return None, 0
        return ~np.isin(self.rows[:, 0], np.fromiter(hidden, np.int64, len(hidden))), len(hidden)

    def _hidden(self, groups: set[str]) -> set[int]:
        return {row for row, acl in self._restricted if not groups & set(acl)}

    @cached_property
    def _restricted(self) -> list[tuple[int, list[str]]]:
        return self.catalogue.restricted(self.generation)
