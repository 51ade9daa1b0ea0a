"""Facets: the metadata that a caller can filter by, with the number of documents that have each value.

A key is a facet if it helps: among the documents that the caller may read, it has 2 to 50 different values, enough
documents have it, most values occur more than once, so that it is no list of spellings or titles, and its values are no
addresses. The folder, `path`, is always one, if there is more than one folder. The owner may name the keys instead.

A value is counted under the filters on the *other* keys, so that somebody who chose `status=approved` still sees how
many drafts there are. Nothing is counted in a document that the caller may not read, so no key and no value shows what
only such documents have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefind.base.access import PATH, Filter
from surefind.base.errors import UsageError
from surefind.base.types import BoolArray
from surefind.engine.store.columns import Columns, MetaColumn

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
