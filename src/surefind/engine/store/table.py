"""The table of all chunks of a set of documents in one layout: arrays on disk that a reader maps into memory.

A chunk's *place* is its number in the order of document id and position; its *id* is the same in every set. Indexes
use places, all other code uses ids. The writer makes the table once, so that opening a generation reads no row of the
catalogue.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.base.disk.arrays import check_length, read_array
from surefind.base.errors import PassageError
from surefind.base.protocols import SKETCH
from surefind.base.types import PAD, IdArray, IntArray
from surefind.engine.store.columns import Columns
from surefind.engine.store.rows import Member
from surefind.engine.store.versions import batched

_CONTEXT_FORMAT = 2
"""A number in the fingerprint. Increase it when a chunker or an enricher writes other context for the same chunks."""
_WRITTEN = re.compile(r"\bllm_")
"""Matches layouts in which a language model writes contexts. Such contexts can differ for the same document and layout,
so they are part of the fingerprint."""
_HASHED_AT_ONCE = 10_000
"""The documents that are hashed together."""
_COLUMNS = ("version", "seq", "id", "start", "end", "parent_start", "parent_end")
Longs = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ChunkTable:
    """The chunks of a set in one layout, and the documents they are from."""

    layout: str
    rows: Longs
    """One column per place: version, seq, id, start, end, start and end of the passage that a search returns."""
    versions: Longs
    """The versions of the documents, in order of document id."""
    names: list[str]
    """The ids of the documents."""
    paths: list[str]
    """The paths of the documents' files."""
    acls: list[tuple[int, list[str]]]
    """(document, groups) of each document with its own access list; a document is its index in `names`."""
    columns: Columns
    """The metadata of the documents."""
    fingerprint: str
    """A hash that is equal for equal documents cut in the same places, wherever and whenever they were synced."""
    sketch: tuple[int, ...]
    """The lowest hashes of ids and contents. Comparing two sketches estimates how much two corpora share."""
    altered: bool = False
    """Whether ids were changed because two chunks had the same one."""
    contents: list[str] | None = None
    """The hashes of the documents' contents; None in a table that an earlier release wrote."""

    @classmethod
    def build(cls, layout: str, members: Sequence[Member], rows: Longs, contexts: Iterable[str]) -> ChunkTable:
        """Builds the table from the members of a set and its chunk rows, both in order of document id."""
        made = rows.T.copy()
        ids = made[2].copy()
        made[2] = _distinct(ids)
        names, contents = [member.document for member in members], [member.content for member in members]
        return cls(
            layout,
            made,
            np.array([member.version for member in members], np.int64),
            names,
            [member.path for member in members],
            [(i, list(member.acl)) for i, member in enumerate(members) if member.acl],
            Columns.build(member.metadata for member in members).of(names),
            _fingerprint(layout, names, contents, made, contexts if _WRITTEN.search(layout) else ()),
            _sketch(_hashes(names, contents)),
            not np.array_equal(made[2], ids),
            contents,
        )

    def edited(self, before: Sequence[Member], after: Sequence[Member], rows: Longs) -> ChunkTable | None:
        """Returns the table in which documents have another text: `after` replaces `before`, and `rows` has the new
        chunks. None if more than texts differ; then the table has to be built."""
        if self.contents is None or self.altered or _WRITTEN.search(self.layout):
            return None
        if [(member.document, *member[3:]) for member in before] != [
            (member.document, *member[3:]) for member in after
        ]:
            return None
        versions, contents = self.versions.copy(), self.contents.copy()
        for member in after:
            at = bisect_left(self.names, member.document)
            versions[at], contents[at] = member.version, member.content
        made = self._rows_edited(before, after, rows)
        if made is None:
            return None
        lowest = self._sketch_with(before, after)
        return replace(
            self,
            rows=made,
            versions=versions,
            contents=contents,
            fingerprint=_fingerprint(self.layout, self.names, contents, made, ()),
            sketch=_sketch(_hashes(self.names, contents)) if lowest is None else lowest,
        )

    def _rows_edited(self, before: Sequence[Member], after: Sequence[Member], rows: Longs) -> Longs | None:
        """Returns the rows in which the chunks of versions stand where those of earlier versions stood. None if one of
        these has no chunk, and so no place, or if two chunks have the same id."""
        places = np.flatnonzero(np.isin(self.rows[0], [member.version for member in before]))
        numbers, first, sizes = np.unique(self.rows[0, places], return_index=True, return_counts=True)
        starts = places[first]
        spans = dict(zip(numbers.tolist(), zip(starts.tolist(), (starts + sizes).tolist(), strict=True), strict=True))
        parts, last = [], 0
        for old, new in zip(before, after, strict=True):
            if old.version not in spans:
                return None
            start, end = spans[old.version]
            parts += [self.rows[:, last:start], rows[rows[:, 0] == new.version].T]
            last = end
        made: Longs = np.concatenate([*parts, self.rows[:, last:]], axis=1)
        unique = np.count_nonzero(np.isin(made[2], rows[:, 2])) == len(np.unique(rows[:, 2]))
        return made if unique else None

    def _sketch_with(self, before: Sequence[Member], after: Sequence[Member]) -> tuple[int, ...] | None:
        """Returns the sketch after a change of these documents; None if it depends on hashes that are not in it."""
        gone, new = (
            _hashes([member.document for member in some], [member.content for member in some])
            for some in (before, after)
        )
        left = np.setdiff1d(np.array(self.sketch, np.uint64), gone)
        return None if len(left) < len(self.sketch) == SKETCH else _sketch(np.concatenate([left, new]))

    def __len__(self) -> int:
        return int(self.rows.shape[1])

    # ------------------------------------------------------------ ids and places

    @property
    def ids(self) -> IdArray:
        """The id of each place."""
        found: IdArray = self.rows[2]
        return found

    @cached_property
    def _order(self) -> tuple[Longs, IdArray]:
        order = np.argsort(self.ids, kind="stable")
        return order, self.ids[order]

    def places(self, ids: Any) -> Longs:
        """Returns the place of each id; padding stays padding. Raises `StoreError` for an id outside this set."""
        wanted = np.asarray(ids, np.int64)
        order, known = self._order
        at = np.searchsorted(known, wanted).clip(max=max(len(known) - 1, 0))
        known_here = (known[at] == wanted) if len(known) else np.zeros(wanted.shape, np.bool_)
        if not bool((known_here | (wanted == PAD)).all()):
            raise PassageError("A requested passage belongs to another generation. Search again.")
        return np.where(known_here, order[at] if len(order) else PAD, PAD)

    @cached_property
    def documents(self) -> IntArray:
        """The document of each place, as an index into `names`."""
        found: IntArray = np.zeros(len(self), np.int32)
        if len(self):
            order = np.argsort(self.versions, kind="stable")
            found = order[np.searchsorted(self.versions[order], self.rows[0])].astype(np.int32)
        return found

    @cached_property
    def parents(self) -> Longs | None:
        """The number of the passage that a search returns for each place; None if no two chunks share a passage."""
        version, _, _, start, end, parent_start, parent_end = self.rows
        if bool((start == parent_start).all() and (end == parent_end).all()):
            return None
        parents = np.stack([version, parent_start, parent_end])
        _, numbers = np.unique(parents, axis=1, return_inverse=True)
        numbers = numbers.reshape(-1).astype(np.int64)
        return numbers if len(numbers) and int(numbers.max()) + 1 < len(self) else None

    def origin(self, earlier: ChunkTable) -> IntArray:
        """Returns, for each place, the place of the same chunk in an earlier table, or -1. A chunk is the same only in
        the same version: in another version its context may differ."""
        own, other = (table.rows[0] << 24 | table.rows[1] for table in (self, earlier))
        order = np.argsort(other, kind="stable")
        at = np.searchsorted(other[order], own).clip(max=max(len(other) - 1, 0))
        if not len(other):
            return np.full(len(self), -1, np.int32)
        return np.where(other[order][at] == own, order[at], -1).astype(np.int32)

    def rows_with(self, versions: Longs, fresh: Longs) -> Longs:
        """Returns a row for every chunk of these versions, in their order. `fresh` has the rows of the versions that
        this table does not have, and rows of others are copied from it."""
        pool = np.concatenate([self.rows.T, fresh])
        order = np.argsort(pool[:, 0], kind="stable")  # the chunks of a version are in order of position in both
        known = pool[order, 0]
        starts, ends = np.searchsorted(known, versions, "left"), np.searchsorted(known, versions, "right")
        sizes = ends - starts
        at = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
        numbers: Longs = pool[order[at]]
        return numbers

    # ------------------------------------------------------------ on disk

    def save(self, folder: Path) -> None:
        """Writes the table into a folder."""
        np.save(folder / "rows.npy", self.rows)
        np.save(folder / "versions.npy", self.versions)
        about = {
            "layout": self.layout, "fingerprint": self.fingerprint, "sketch": self.sketch, "names": self.names,
            "paths": self.paths, "acls": self.acls, "altered": self.altered, "contents": self.contents,
        }  # fmt: skip
        (folder / "table.json").write_text(json.dumps(about, ensure_ascii=False), encoding="utf-8")
        self.columns.save(folder)

    @classmethod
    def load(cls, folder: Path) -> ChunkTable:
        """Reads a table; its arrays are mapped into memory."""
        about = json.loads((folder / "table.json").read_text(encoding="utf-8"))
        rows = read_array(folder / "rows.npy", np.int64, ndim=2)
        versions = read_array(folder / "versions.npy", np.int64)
        check_length("rows", rows, len(_COLUMNS))
        check_length("versions", versions, len(about["names"]))
        for key in ("paths", "contents"):
            check_length(key, about.get(key) or about["names"], len(about["names"]))
        if not bool(np.isin(rows[0], versions).all()):
            raise ValueError("rows has chunks of versions that the table does not have")
        return cls(
            about["layout"], rows, versions, about["names"], about["paths"],
            [(document, groups) for document, groups in about["acls"]],
            Columns.load(folder, len(versions)).of(about["names"]),
            about["fingerprint"], tuple(about["sketch"]), about["altered"], about.get("contents"),
        )  # fmt: skip


def _distinct(ids: Longs) -> Longs:
    """Makes ids unique: of two chunks with the same id, the later one gets the next free number. Such a collision is
    all but impossible, but it would mix the chunks up."""
    taken: set[int] = set()
    ordered = np.sort(ids)
    if not bool((ordered[1:] == ordered[:-1]).any()):
        return ids
    made = ids.copy()
    for place, chunk_id in enumerate(ids.tolist()):
        while chunk_id in taken:
            chunk_id += 1
        taken.add(chunk_id)
        made[place] = chunk_id
    return made


def _fingerprint(
    layout: str, names: Sequence[str], contents: Sequence[str], rows: Longs, contexts: Iterable[str]
) -> str:
    """Hashes the documents and the spans of their chunks. The layout's spec alone is not enough, since another release
    may cut the same text elsewhere."""
    digest = hashlib.blake2b(f"{layout}\0{_CONTEXT_FORMAT}".encode(), digest_size=16)
    for some in zip(batched(names, _HASHED_AT_ONCE), batched(contents, _HASHED_AT_ONCE), strict=True):
        digest.update("\0".join([*chain.from_iterable(zip(*some, strict=True)), ""]).encode())
    digest.update(np.ascontiguousarray(rows[3:].T).tobytes())
    for context in contexts:
        digest.update(f"{context}\0".encode())
    return digest.hexdigest()


def _hashes(names: Sequence[str], contents: Sequence[str]) -> NDArray[np.uint64]:
    """Returns a hash of 48 bits for each document: of its id and its content."""
    digests = b"".join(
        hashlib.blake2b(f"{name}\0{content}".encode(), digest_size=6).digest()
        for name, content in zip(names, contents, strict=True)
    )
    padded = np.zeros((len(names), 8), np.uint8)
    padded[:, 2:] = np.frombuffer(digests, np.uint8).reshape(-1, 6)
    return padded.view(">u8").ravel().astype(np.uint64)


def _sketch(hashes: NDArray[np.uint64]) -> tuple[int, ...]:
    """Returns the `SKETCH` lowest hashes."""
    return tuple(np.sort(hashes)[:SKETCH].tolist())
