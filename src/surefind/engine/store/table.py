"""The table of all chunks of a set of documents in one layout, with the metadata of the documents as columns: arrays on
disk that a reader maps into memory.

A chunk's *place* is its number in the order of document id and position; its *id* is the same in every set. Indexes
use places, all other code uses ids. The writer makes the table once, so that opening a generation reads no row of the
catalogue.

A column has the distinct values of a metadata key, and which documents have them. A filter tests each distinct value
once instead of each document's JSON. A *facet* is a key that a caller can filter by, with the number of documents of
each value. A key is a facet if it helps: among the documents that the caller may read, it has 2 to 50 different values,
enough documents have it, most values occur more than once, so that it is no list of spellings or titles, and its values
are no addresses. The folder, `path`, is always one, if there is more than one folder. The owner may name the keys
instead. A value is counted under the filters on the *other* keys, so that somebody who chose `status=approved` still
sees how many drafts there are. Nothing is counted in a document that the caller may not read, so no key and no value
shows what only such documents have.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.base.access import PATH, Filter
from surefind.base.disk.arrays import check_length, check_offsets, check_range, read_array, strings
from surefind.base.errors import PassageError, UsageError
from surefind.base.protocols import SKETCH
from surefind.base.types import PAD, BoolArray, IdArray, IntArray
from surefind.engine.store.versions import Member, batched


@dataclass(frozen=True, eq=False)
class MetaColumn:
    """The values of one metadata key."""

    values: list[str]
    """The distinct values, as the first document writes them. Upper and lower case are the same to filters."""
    documents: IntArray
    codes: IntArray
    """Document `documents[i]` has the value `values[codes[i]]`; a document may have several values, or none."""

    def having(self, condition: Filter, count: int) -> BoolArray:
        """Returns which of `count` documents a filter accepts."""
        wanted = np.fromiter((condition.accepts(value.lower()) for value in self.values), np.bool_, len(self.values))
        having_documents = np.zeros(count, np.bool_)
        having_documents[self.documents[wanted[self.codes]]] = True
        return ~having_documents if condition.operator == "!=" else having_documents


class Columns:
    """The columns of all metadata keys, by key, and `path`, the folders above each document."""

    def __init__(self, columns: Mapping[str, MetaColumn], names: Sequence[str] = ()) -> None:
        self._columns = columns
        self._names = names

    def __contains__(self, key: str) -> bool:
        return key == PATH or key in self._columns

    def __getitem__(self, key: str) -> MetaColumn:
        return self._folders if key == PATH else self._columns[key]

    def of(self, names: Sequence[str]) -> Columns:
        """Returns the columns of documents with these ids."""
        return Columns(self._columns, names)

    @cached_property
    def _folders(self) -> MetaColumn:
        """The folders of the documents. They are made of the ids, so that no sync has to write them."""
        known: dict[str, int] = {}
        pairs = [
            (number, known.setdefault(folder, len(known)))
            for number, name in enumerate(self._names)
            for folder in folders_of(name)
        ]
        documents, codes = np.array(pairs, np.int32).reshape(-1, 2).T
        return MetaColumn(list(known), documents, codes)

    def keys_of(self, documents: BoolArray) -> list[str]:
        """Returns the keys that at least one of these documents has."""
        keys = {key for key, column in self._columns.items() if documents[column.documents].any()}
        return sorted({*keys, PATH})

    @classmethod
    def build(cls, metadata: Iterable[str]) -> Columns:
        """Builds the columns from the JSON of each document's metadata, in order."""
        codes: dict[str, dict[str, int]] = {}
        spelled: dict[str, list[str]] = {}
        pairs: dict[str, tuple[list[int], list[int]]] = {}
        alike: dict[str, list[int]] = {}
        for document, text in enumerate(metadata):
            alike.setdefault(text, []).append(document)
        for text, having in alike.items():  # many documents may have the same metadata, which is then read once
            for key, value in json.loads(text).items():
                known, written = codes.setdefault(key, {}), spelled.setdefault(key, [])
                documents, found = pairs.setdefault(key, ([], []))
                for item in items_of(value):
                    if item.lower() not in known:
                        written.append(item)
                    documents += having
                    found += [known.setdefault(item.lower(), len(known))] * len(having)
        return cls(
            {key: MetaColumn(spelled[key], *(np.array(side, np.int32) for side in pairs[key])) for key in sorted(codes)}
        )

    def save(self, folder: Path) -> None:
        listed = {key: column.values for key, column in self._columns.items()}
        (folder / "columns.json").write_text(json.dumps(listed, ensure_ascii=False), encoding="utf-8")
        columns = self._columns.values()
        np.save(folder / "columns_sizes.npy", np.array([len(column.documents) for column in columns], np.int64))
        for name, parts in (
            ("documents", [column.documents for column in columns]),
            ("codes", [column.codes for column in columns]),
        ):
            np.save(folder / f"columns_{name}.npy", np.concatenate([np.zeros(0, np.int32), *parts]))

    @classmethod
    def load(cls, folder: Path, count: int) -> Columns:
        """Reads the columns of `count` documents."""
        listed: dict[str, list[str]] = json.loads((folder / "columns.json").read_text(encoding="utf-8"))
        sizes = read_array(folder / "columns_sizes.npy", np.int64, mapped=False)
        documents, codes = (read_array(folder / f"columns_{name}.npy", np.int32) for name in ("documents", "codes"))
        check_length("columns", listed, len(sizes))
        check_offsets("sizes", np.concatenate([[0], np.cumsum(sizes)]), len(sizes), len(documents))
        check_length("codes", codes, len(documents))
        check_range("documents", documents, 0, count)
        ends = np.cumsum(sizes)[:-1]
        parts = zip(np.split(documents, ends), np.split(codes, ends), strict=True)
        made = {key: MetaColumn(strings(key, listed[key]), *part) for key, part in zip(listed, parts, strict=False)}
        for key, column in made.items():
            check_range(key, column.codes, 0, len(column.values))
        return cls(made)


def items_of(value: Any) -> list[str]:
    """Returns the values of a metadata entry that filters compare: each item of a list by itself. `cash, wire` is a
    list, too."""
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return [part for item in listed for part in _parts(str(item))]


def _parts(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    is_list = len(parts) > 1 and all(parts) and not text.replace(",", "").replace(".", "").isdigit()
    return parts if is_list else [text]


def folders_of(document: str) -> Iterator[str]:
    """Yields the folders above a document, the outermost first."""
    at = document.find("/")
    while at >= 0:
        yield document[:at]
        at = document.find("/", at + 1)


MIN_VALUES, MAX_VALUES = 2, 50
"""How many values a facet may have. One value tells nothing apart, and hundreds cannot be shown."""
_MAX_UNSHARED = 5
"""So many values help also if each of them is on one document: small knowledge bases have few documents."""
_MIN_SHARE = 0.02
"""The share of the documents that must have a key."""
_NEVER = ("acl", "title")
"""Metadata that nobody filters by."""
_ADDRESSES = ("/", "http://", "https://", "www.", "mailto:")


@dataclass(frozen=True, slots=True)
class Facet:
    """A metadata key, and the number of documents that have each of its values, most frequent value first."""

    key: str
    values: tuple[tuple[str, int], ...]


def facets_of(
    columns: Columns, seen: BoolArray, where: Sequence[Filter], keys: Sequence[str] = ()
) -> tuple[Facet, ...]:
    """Returns the facets of the documents in `seen` under these filters: those in `keys`, in this order, or else the
    folder and the keys that help, those of most documents first."""
    accepted = [(condition.key, columns[condition.key].having(condition, len(seen))) for condition in where]
    known = columns.keys_of(seen)
    facets = []
    for key in [key for key in keys if key in known] or [key for key in known if key not in _NEVER]:
        column = columns[key]
        shown = _folders(column, seen, where) if key == PATH else _values(key, column, seen)
        if len(shown) < MIN_VALUES or not (keys or key == PATH or _helps(column, shown, seen)):
            continue
        fits = seen.copy()
        for other, documents in accepted:
            if other != key:
                fits &= documents
        counted = zip(shown, _counts(column, shown, fits), strict=True)
        values = [(column.values[code], count) for code, count in counted if count]
        if values:
            facets.append(Facet(key, tuple(sorted(values, key=lambda value: (-value[1], value[0])))))
    if not keys:
        facets.sort(key=lambda facet: (facet.key != PATH, -sum(count for _, count in facet.values), facet.key))
    return tuple(facets)


def _values(key: str, column: MetaColumn, seen: BoolArray) -> list[int]:
    """Returns the codes of the values that can be chosen; none if these documents have too many values."""
    codes = np.flatnonzero(np.bincount(column.codes[seen[column.documents]])).tolist()
    return [] if len(codes) > MAX_VALUES else [code for code in codes if _can_filter(key, column.values[code])]


def _helps(column: MetaColumn, shown: Sequence[int], seen: BoolArray) -> bool:
    """Returns whether a key tells documents apart that people would tell apart."""
    having = len(np.unique(column.documents[seen[column.documents]]))
    values = [column.values[code] for code in shown]
    addresses = sum(value.lower().startswith(_ADDRESSES) for value in values)
    enough = having >= _MIN_SHARE * int(np.count_nonzero(seen)) and len(shown) <= max(_MAX_UNSHARED, having / 2)
    return enough and addresses * 2 < len(values)


def _folders(column: MetaColumn, seen: BoolArray, where: Sequence[Filter]) -> list[int]:
    """Returns the codes of the folders that can be chosen: the first level on which there is a choice, and what is in
    the folders that are chosen."""
    codes = np.flatnonzero(np.bincount(column.codes[seen[column.documents]])).tolist()
    below: dict[str, list[int]] = {}
    for code in codes:
        below.setdefault(column.values[code].rpartition("/")[0], []).append(code)
    top, level = "", below.get("", [])
    while len(level) == 1 and (inner := below.get(column.values[level[0]])):
        top, level = column.values[level[0]], inner
    chosen = {
        value
        for condition in where
        if condition.key == PATH and condition.operator == "="
        for value in condition.values
    } - {top.lower()}
    opened = [code for folder, inner in below.items() if folder.lower() in chosen for code in inner]
    picked = [code for code in codes if column.values[code].lower() in chosen]
    return list(dict.fromkeys([*level[:MAX_VALUES], *picked, *opened[:MAX_VALUES]]))


def _counts(column: MetaColumn, shown: Sequence[int], documents: BoolArray) -> list[int]:
    """Returns how many of these documents have each of the shown values. A document that lists a value twice counts
    once."""
    row_of = np.full(len(column.values), -1, np.int32)
    row_of[shown] = np.arange(len(shown))
    rows = row_of[column.codes]
    which = documents[column.documents] & (rows >= 0)
    has = np.zeros((len(shown), len(documents)), np.bool_)
    has[rows[which], column.documents[which]] = True
    return [int(count) for count in np.count_nonzero(has, axis=1)]


def _can_filter(key: str, value: str) -> bool:
    """Returns whether a filter can be written that means this value. In a filter, a comma separates values."""
    try:
        return Filter.parse(f"{key}={value}") == Filter(key, "=", (value.lower(),))
    except UsageError:
        return False


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
        same = (known[at] == wanted) if len(known) else np.zeros(wanted.shape, np.bool_)
        if not bool((same | (wanted == PAD)).all()):
            raise PassageError("A requested passage belongs to another generation. Search again.")
        return np.where(same, order[at] if len(order) else PAD, PAD)

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
