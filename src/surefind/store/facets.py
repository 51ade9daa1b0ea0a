"""Facets: the metadata that a caller can filter by, with the number of documents that have each value.

A key is a facet if the documents that the caller may read have 2 to 50 different values of it. A value is counted under
the filters on the *other* keys, so that somebody who chose `status=approved` still sees how many drafts there are.
Nothing is counted in a document that the caller may not read, so no key and no value shows what only such documents
have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefind.access import Filter
from surefind.errors import UsageError
from surefind.store.columns import Column, Columns
from surefind.types import BoolArray

FEWEST, MOST = 2, 50
"""How many values a facet may have. One value tells nothing apart, and hundreds cannot be shown."""


@dataclass(frozen=True, slots=True)
class Facet:
    """A metadata key, and the number of documents that have each of its values, most frequent value first."""

    key: str
    values: tuple[tuple[str, int], ...]


def facets_of(columns: Columns, seen: BoolArray, where: Sequence[Filter]) -> tuple[Facet, ...]:
    """Returns the facets of the documents in `seen` under these filters, in order of their keys."""
    accepted = [(one.key, columns[one.key].having(one, len(seen))) for one in where]
    found = []
    for key in columns.keys_of(seen):
        column = columns[key]
        shown = _shown(key, column, seen)
        if len(shown) >= FEWEST:
            fits = seen.copy()
            for other, documents in accepted:
                if other != key:
                    fits &= documents
            counted = zip(shown, _counts(column, shown, fits), strict=True)
            values = [(column.values[code], count) for code, count in counted if count]
            found.append(Facet(key, tuple(sorted(values, key=lambda value: (-value[1], value[0])))))
    return tuple(found)


def _shown(key: str, column: Column, seen: BoolArray) -> list[int]:
    """Returns the codes of the values that can be chosen; none if these documents have too many values."""
    codes = np.flatnonzero(np.bincount(column.codes[seen[column.documents]])).tolist()
    return [] if len(codes) > MOST else [code for code in codes if _can_filter(key, column.values[code])]


def _counts(column: Column, shown: Sequence[int], documents: BoolArray) -> list[int]:
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
        return Filter.parse(f"{key}={value}") == Filter(key, "=", (value,))
    except UsageError:
        return False
