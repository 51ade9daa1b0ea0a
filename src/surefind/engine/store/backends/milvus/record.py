"""What this machine knows about a set of documents in a collection: a `Record`, kept as an index is."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.base.disk.arrays import check_length, read_array
from surefind.base.protocols import Retriever, Services
from surefind.engine.store.backends.milvus.expressions import both
from surefind.engine.store.backends.milvus.words import SetStatistics
from surefind.engine.store.needs import each_needed

FORMAT = 1
"""The format of rows and records. Increase it when either changes: everything is then written again."""
_KIND = "milvus"
Longs = NDArray[np.int64]


def is_remote(retriever: Retriever) -> bool:
    """Returns whether Milvus can hold the index of a retriever: `bm25` or `dense`."""
    return getattr(retriever, "kind", "") == "retrieve" and retriever.name in ("bm25", "dense")


def remote_spec(retriever: Any, services: Services) -> str:
    """Returns what a collection depends on besides the layout. For `bm25` also k1 and b, which are in its weights."""
    own = f", k1={retriever.k1}, b={retriever.b}" if retriever.name == "bm25" else ""
    return f"{_KIND}({retriever.index_spec(services)}{own})@{FORMAT}"


def remote_specs(retrievers: Sequence[Retriever], services: Services) -> dict[str, Retriever]:
    """Returns the retrievers, of these and the ones they use, whose indexes Milvus holds, by their `remote_spec`."""
    return {remote_spec(used, services): used for used in each_needed(retrievers) if is_remote(used)}


def index_spec_of(spec: str) -> str:
    """Returns the index spec in a `remote_spec`; any other spec as it is."""
    match = re.fullmatch(rf"{_KIND}\((.*?)(, k1=[^,]*, b=[^,]*)?\)@\d+", spec)
    return match[1] if match else spec


def short_hash(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=6).hexdigest()


def record_key(contents: int, layout: str, spec: str) -> str:
    """Returns the key of a record among the indexes."""
    return f"{_KIND}-{contents}-{short_hash(layout, spec)}"


def recorded_set(key: str) -> int | None:
    """Returns the number of the set from the key of a record; None for the key of something else."""
    kind, _, rest = key.partition("-")
    number = rest.partition("-")[0]
    return int(number) if kind == _KIND and number.isdigit() else None


@dataclass(frozen=True, eq=False)
class Record:
    """The place of a set in a collection."""

    contents: int
    collection: str
    alias: str
    versions: Longs
    """The versions that the collection has up to this set, ascending."""
    firsts: Longs
    """The `first` of each of them."""
    excluded: Longs
    """Those of them that this set does not have."""
    words: SetStatistics | None = None
    """The statistics of `bm25`."""

    @property
    def expression(self) -> str:
        """The expression for the rows of this set. Where all versions of an earlier set are gone, it excludes that set
        by its number."""
        dead, listed = self.exclusions()
        return both(
            f"first <= {self.contents}",
            f"first not in {dead}" if dead else "",
            f"version not in {listed}" if listed else "",
        )

    def exclusions(self) -> tuple[list[int], list[int]]:
        """Returns the values of `first` whose versions are all excluded, and the other excluded versions."""
        out = np.isin(self.versions, self.excluded)
        dead = np.setdiff1d(self.firsts[out], self.firsts[~out])
        listed = self.versions[out & ~np.isin(self.firsts, dead)]
        return dead.tolist(), listed.tolist()

    def save(self, folder: Path) -> None:
        for name in ("versions", "firsts", "excluded"):
            np.save(folder / f"{name}.npy", getattr(self, name))
        about = {"contents": self.contents, "collection": self.collection, "alias": self.alias}
        (folder / "record.json").write_text(json.dumps(about), encoding="utf-8")
        if self.words is not None:
            self.words.save(folder)

    @classmethod
    def load(cls, folder: Path) -> Record:
        about = json.loads((folder / "record.json").read_text(encoding="utf-8"))
        versions, firsts, excluded = (
            read_array(folder / f"{name}.npy", np.int64) for name in ("versions", "firsts", "excluded")
        )
        check_length("firsts", firsts, len(versions))
        words = SetStatistics.load(folder) if (folder / "words.json").exists() else None
        return cls(about["contents"], about["collection"], about["alias"], versions, firsts, excluded, words)


def longs(values: Sequence[int]) -> Longs:
    return np.array(sorted(values), np.int64)
