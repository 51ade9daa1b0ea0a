"""The metadata of a set of documents as columns, one per key: the distinct values, and which documents have them.

A filter tests each distinct value once instead of each document's JSON, so its cost grows with the column's length.

Facets: the metadata that a caller can filter by, with the number of documents that have each value.

A key is a facet if it helps: among the documents that the caller may read, it has 2 to 50 different values, enough
documents have it, most values occur more than once, so that it is no list of spellings or titles, and its values are no
addresses. The folder, `path`, is always one, if there is more than one folder. The owner may name the keys instead.

A value is counted under the filters on the *other* keys, so that somebody who chose `status=approved` still sees how
many drafts there are. Nothing is counted in a document that the caller may not read, so no key and no value shows what
only such documents have.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from surefind.base.access import PATH, Filter
from surefind.base.disk.arrays import check_length, check_offsets, check_range, read_array, strings
from surefind.base.errors import UsageError
from surefind.base.types import BoolArray, IntArray


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
