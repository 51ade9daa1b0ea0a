"""Where every chunk of a set of documents lies, in one layout: arrays on disk that a reader maps into memory.

A chunk's *place* is its number in the order of document id and position; its *id* is the same in every set. Indexes
know places, everybody else ids. The table is made once by the writer, so that opening a generation reads no row of the
catalogue.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.errors import StoreError
from surefind.protocols import SKETCH
from surefind.store.columns import Columns
from surefind.store.rows import Member
from surefind.types import PAD, IdArray, IntArray

_CONTEXT_FORMAT = 2
"""Raised when a chunker or an enricher writes other context for the same chunks."""
_WRITTEN = re.compile(r"\bllm_")
"""Layouts whose contexts a language model writes: they do not follow from the document and the layout."""
_COLUMNS = ("version", "seq", "id", "start", "end", "parent_start", "parent_end")
Longs = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Table:
    layout: str
    rows: Longs
    """(version, seq, id, start, end, start and end of what is returned) of each place, a column each."""
    versions: Longs
    """Of the documents, in order of their id."""
    names: list[str]
    """The documents' ids."""
    paths: list[str]
    acls: list[tuple[int, list[str]]]
    """(document, groups) of those with an access list of their own."""
    columns: Columns
    fingerprint: str
    """Equal for equal documents cut in the same places, wherever and whenever they were synced."""
    sketch: tuple[int, ...]
    """The least hashes of ids and contents: two sketches tell how much two corpora have in common."""

    @classmethod
    def build(
        cls, layout: str, members: Sequence[Member], rows: Sequence[tuple[int, ...]], contexts: Iterable[str]
    ) -> Table:
        made = np.array(rows, dtype=np.int64).reshape(-1, len(_COLUMNS)).T.copy()
        made[2] = _distinct(made[2])
        return cls(
            layout,
            made,
            np.array([member.version for member in members], np.int64),
            [member.document for member in members],
            [member.path for member in members],
            [(i, list(member.acl)) for i, member in enumerate(members) if member.acl],
            Columns.build(member.metadata for member in members),
            _fingerprint(layout, members, made, contexts if _WRITTEN.search(layout) else ()),
            _sketch(members),
        )

    def __len__(self) -> int:
        return int(self.rows.shape[1])

    # ------------------------------------------------------------ ids and places

    @property
    def ids(self) -> IdArray:
        """By place."""
        found: IdArray = self.rows[2]
        return found

    @cached_property
    def _order(self) -> tuple[Longs, IdArray]:
        order = np.argsort(self.ids, kind="stable")
        return order, self.ids[order]

    def places(self, ids: Any) -> Longs:
        """The place of each id; padding stays padding. An id that is not of this set is an error."""
        asked = np.asarray(ids, np.int64)
        order, known = self._order
        at = np.searchsorted(known, asked).clip(max=max(len(known) - 1, 0))
        there = (known[at] == asked) if len(known) else np.zeros(asked.shape, np.bool_)
        if not bool((there | (asked == PAD)).all()):
            raise StoreError("A passage of another generation was asked for. Search again.")
        return np.where(there, order[at] if len(order) else PAD, PAD)

    @cached_property
    def documents(self) -> IntArray:
        """The document of each place."""
        found: IntArray = np.zeros(len(self), np.int32)
        if len(self):
            order = np.argsort(self.versions, kind="stable")
            found = order[np.searchsorted(self.versions[order], self.rows[0])].astype(np.int32)
        return found

    @cached_property
    def families(self) -> Longs | None:
        """For each place the number of the passage that a search returns, where several chunks share one."""
        version, _, _, start, end, parent_start, parent_end = self.rows
        if bool((start == parent_start).all() and (end == parent_end).all()):
            return None
        parents = np.stack([version, parent_start, parent_end])
        _, numbers = np.unique(parents, axis=1, return_inverse=True)
        numbers = numbers.reshape(-1).astype(np.int64)
        return numbers if len(numbers) and int(numbers.max()) + 1 < len(self) else None

    def origin(self, earlier: Table) -> IntArray:
        """For each place the place of the same chunk in an earlier table, or -1. The same is one of the same version:
        what stands beside a text may differ in another."""
        mine, theirs = (table.rows[0] << 24 | table.rows[1] for table in (self, earlier))
        order = np.argsort(theirs, kind="stable")
        at = np.searchsorted(theirs[order], mine).clip(max=max(len(theirs) - 1, 0))
        if not len(theirs):
            return np.full(len(self), -1, np.int32)
        return np.where(theirs[order][at] == mine, order[at], -1).astype(np.int32)

    # ------------------------------------------------------------ on disk

    def save(self, folder: Path) -> None:
        np.save(folder / "rows.npy", self.rows)
        np.save(folder / "versions.npy", self.versions)
        about = {
            "layout": self.layout, "fingerprint": self.fingerprint, "sketch": self.sketch, "names": self.names,
            "paths": self.paths, "acls": self.acls,
        }  # fmt: skip
        (folder / "table.json").write_text(json.dumps(about, ensure_ascii=False), encoding="utf-8")
        self.columns.save(folder)

    @classmethod
    def load(cls, folder: Path) -> Table:
        about = json.loads((folder / "table.json").read_text(encoding="utf-8"))
        rows, versions = (np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in ("rows", "versions"))
        return cls(
            about["layout"], rows, versions, about["names"], about["paths"],
            [(document, groups) for document, groups in about["acls"]], Columns.load(folder), about["fingerprint"],
            tuple(about["sketch"]),
        )  # fmt: skip


def _distinct(ids: Longs) -> Longs:
    """Two chunks with one id are as good as impossible, and would be mixed up: the later one takes the next number."""
    taken: set[int] = set()
    if len(np.unique(ids)) == len(ids):
        return ids
    made = ids.copy()
    for place, id in enumerate(ids.tolist()):
        while id in taken:
            id += 1
        taken.add(id)
        made[place] = id
    return made


def _fingerprint(layout: str, members: Sequence[Member], rows: Longs, contexts: Iterable[str]) -> str:
    """The places count and not only the layout's name: another release may cut the same text elsewhere."""
    digest = hashlib.blake2b(f"{layout}\0{_CONTEXT_FORMAT}".encode(), digest_size=16)
    for member in members:
        digest.update(f"{member.document}\0{member.content}\0".encode())
    digest.update(np.ascontiguousarray(rows[3:].T).tobytes())
    for context in contexts:
        digest.update(f"{context}\0".encode())
    return digest.hexdigest()


def _sketch(members: Sequence[Member]) -> tuple[int, ...]:
    hashes = (
        hashlib.blake2b(f"{member.document}\0{member.content}".encode(), digest_size=6).digest() for member in members
    )
    return tuple(nsmallest(SKETCH, (int.from_bytes(digest) for digest in hashes)))
