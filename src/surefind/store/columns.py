"""The metadata of a set of documents as columns, one per key: the distinct values, and which documents have them.

A filter tests each distinct value once instead of each document's JSON, so its cost grows with the column's length.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefind.access import Filter
from surefind.arrays import check_length, check_offsets, check_range, read_array, strings
from surefind.types import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class Column:
    """The values of one metadata key."""

    values: list[str]
    """The distinct values, in lower case."""
    documents: IntArray
    codes: IntArray
    """Document `documents[i]` has the value `values[codes[i]]`; a document may have several values, or none."""

    def having(self, one: Filter, count: int) -> BoolArray:
        """Returns which of `count` documents a filter accepts."""
        wanted = np.fromiter(map(one.accepts, self.values), np.bool_, len(self.values))
        found = np.zeros(count, np.bool_)
        found[self.documents[wanted[self.codes]]] = True
        return ~found if one.operator == "!=" else found


class Columns:
    """The columns of all metadata keys, by key."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns

    def __contains__(self, key: str) -> bool:
        return key in self._columns

    def __getitem__(self, key: str) -> Column:
        return self._columns[key]

    def keys_of(self, documents: BoolArray) -> list[str]:
        """Returns the keys that at least one of these documents has."""
        return [key for key, column in self._columns.items() if documents[column.documents].any()]

    @classmethod
    def build(cls, metadata: Iterable[str]) -> Columns:
        """Builds the columns from the JSON of each document's metadata, in order."""
        codes: dict[str, dict[str, int]] = {}
        pairs: dict[str, tuple[list[int], list[int]]] = {}
        alike: dict[str, list[int]] = {}
        for document, text in enumerate(metadata):
            alike.setdefault(text, []).append(document)
        for text, having in alike.items():  # many documents may have the same metadata, which is then read once
            for key, value in json.loads(text).items():
                known = codes.setdefault(key, {})
                documents, found = pairs.setdefault(key, ([], []))
                for item in items_of(value):
                    documents += having
                    found += [known.setdefault(item, len(known))] * len(having)
        return cls(
            {key: Column(list(codes[key]), *(np.array(side, np.int32) for side in pairs[key])) for key in sorted(codes)}
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
        made = {key: Column(strings(key, listed[key]), *part) for key, part in zip(listed, parts, strict=False)}
        for key, column in made.items():
            check_range(key, column.codes, 0, len(column.values))
        return cls(made)


def items_of(value: Any) -> list[str]:
    """Returns the values of a metadata entry, as filters compare them: in lower case, each item of a list by itself."""
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return [str(item).lower() for item in listed]
