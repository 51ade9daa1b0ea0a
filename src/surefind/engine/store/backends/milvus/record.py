"""What this machine knows about a set of documents in a collection: a `Record`, kept as an index is.

The rows of a collection: keys, and hashes of everything that an expression compares.

Groups, paths and metadata are sent as 63-bit hashes. No name or value is ever part of an expression, so none can change
what the expression means, whatever characters it has; and the server learns none of them.

Turns an `Access` into an expression of Milvus, which the server applies before it ranks.

An expression has only numbers in it: hashes, made here and in the rows alike (`rows`). A row without the fields that
an expression asks for does not match, so a mistake hides documents and does not show them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.base.access import PATH, PUBLIC, Access, Filter, PathRule
from surefind.base.disk.arrays import check_length, read_array
from surefind.base.errors import StoreError
from surefind.base.protocols import Retriever, Services
from surefind.engine.store.backends.milvus.server import CAPACITY
from surefind.engine.store.backends.milvus.words import SetStatistics
from surefind.engine.store.indexes import each_needed
from surefind.engine.store.table import ChunkTable, folders_of, items_of
from surefind.engine.store.versions import Member

_SEQ_BITS = 24


def key_of(version: Any, seq: Any) -> Any:
    """Returns the id of a row; takes numbers or arrays."""
    return version << _SEQ_BITS | seq


def digest(*parts: str) -> int:
    """Hashes some texts to a positive number of 63 bits."""
    encoded = [part.encode(errors="surrogatepass") for part in parts]  # a group may come from anywhere
    joined = b"".join(len(part).to_bytes(8, "little") + part for part in encoded)
    return int.from_bytes(hashlib.blake2b(joined, digest_size=8).digest()) >> 1


def group(name: str) -> int:
    return digest("group", name)


def place(path: str) -> int:
    """Hashes a path, or a folder, which ends in a slash."""
    return digest("place", path)


def tag(key: str, value: str) -> int:
    return digest("tag", key, value)


NO_LIST = digest("no list")
"""In `acl`: the document has no access list of its own."""


def folders(path: str) -> Iterator[str]:
    """Yields the folders above a path, the outermost first; each ends in a slash."""
    return (f"{folder}/" for folder in folders_of(path))


@dataclass(frozen=True, slots=True)
class DocumentFields:
    """What the rows of a document have in common."""

    version: int
    acl: list[int]
    under: list[int]
    tags: list[int]

    @classmethod
    def of(cls, member: Member) -> DocumentFields:
        acl = [group(name) for name in member.acl] or [group(PUBLIC), NO_LIST]
        names = dict.fromkeys((member.path, member.document))
        under = dict.fromkeys(place(part) for name in names for part in (*folders(name), name))
        tags = dict.fromkeys(
            tag(key, item.lower()) for key, value in json.loads(member.metadata).items() for item in items_of(value)
        )
        for what, values in (("groups", acl), ("folders", under), ("values of metadata", tags)):
            if len(values) > CAPACITY:
                raise StoreError(
                    f"{member.document} has {len(values)} {what}, and Milvus stores at most {CAPACITY} for a document. "
                    "Shorten them, or use the local backend."
                )
        return cls(member.version, acl, list(under), list(tags))

    def row(self, seq: int, first: int, vector: Any) -> dict[str, Any]:
        """Returns the row of a chunk."""
        return {
            "id": key_of(self.version, seq), "version": self.version, "first": first, "acl": self.acl,
            "under": self.under, "tags": self.tags, "vector": vector,
        }  # fmt: skip


NOTHING = "version < 0"
"""An expression that no row matches."""
_PROBES = ("\0", "\0" * 40)
"""Names that no file has. A pattern that matches a short and a long one of them matches every name."""


class Expressions:
    """Makes the expressions of one set of documents."""

    def __init__(self, table: ChunkTable, rules: Sequence[PathRule]) -> None:
        self._table = table
        self._rules = [rule for rule in rules if not rule.default]
        self._default = [rule.groups for rule in rules if rule.default]

    def of(self, access: Access) -> str:
        """Returns the expression for the documents that the caller may read and the filters accept; empty if there is
        nothing to exclude. A filter by a key that no document has must be refused before."""
        groups = [] if access.sees_all else self._readable(access)
        return both(*groups, *(self._accepted(condition) for condition in access.where))

    def _readable(self, access: Access) -> list[str]:
        """The document's own list must name a group of the caller, and so must every rule that covers it, or the
        default if there is neither."""
        groups = sorted(group(name) for name in access.groups | {PUBLIC})
        closed = [place for rule in self._rules if not access.admits([rule.groups]) for place in self._covered[rule]]
        clauses = [any_of("acl", groups)]
        if closed:
            clauses.append(f"not ({any_of('under', closed)})")
        if any(not access.admits([one]) for one in self._default):
            ruled = [place for rule in self._rules for place in self._covered[rule]]
            own_list = f"not ({any_of('acl', [NO_LIST])})"
            clauses.append(f"({own_list} or {any_of('under', ruled)})" if ruled else own_list)
        return clauses

    @cached_property
    def _covered(self) -> dict[PathRule, list[int]]:
        """The hashes of the folders and files that each rule covers."""
        names = dict.fromkeys((*self._table.paths, *self._table.names))
        return {
            rule: sorted({place(_outermost(rule, name)) for name in names if rule.covers(name)}) for rule in self._rules
        }

    def _accepted(self, condition: Filter) -> str:
        accepted = [value for value in self._table.columns[condition.key].values if condition.accepts(value.lower())]
        if condition.key == PATH:
            field, hashes = "under", [place(f"{folder}/") for folder in accepted]
        else:
            field, hashes = "tags", [tag(condition.key, value.lower()) for value in accepted]
        if condition.operator == "!=":
            return f"not ({any_of(field, hashes)})" if hashes else ""
        return any_of(field, hashes)


def _outermost(rule: PathRule, name: str) -> str:
    """Returns the outermost folder of a name that a rule covers with everything in it, or the name itself."""
    whole = (folder for folder in folders(name) if all(rule.covers(folder + probe) for probe in _PROBES))
    return next(whole, name)


def any_of(field: str, values: Iterable[int]) -> str:
    """Returns the expression for rows whose array has one of these values."""
    listed = list(values)
    return f"array_contains_any({field}, {listed})" if listed else NOTHING


def both(*parts: str) -> str:
    """Joins expressions that must all match; empty ones match everything."""
    return " and ".join(part for part in parts if part)


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
