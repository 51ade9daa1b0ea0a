"""Publishes sets of documents in Milvus; `surefind.engine.store.backends.milvus` describes how.

The vectors of chunks, as a collection of `bm25` or of `dense` has them.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from surefind.base.access import PathRule
from surefind.base.errors import ConfigError, CorruptIndexError, NotBuiltError
from surefind.base.protocols import OnProgress, Retriever, Services
from surefind.base.types import Chunk
from surefind.engine.store.backend import Contents, Delta, Merged
from surefind.engine.store.backends.local import LocalBackend
from surefind.engine.store.backends.milvus.indexes import MilvusView, check_complete
from surefind.engine.store.backends.milvus.record import (
    DocumentFields,
    Longs,
    Record,
    index_spec_of,
    is_remote,
    longs,
    record_key,
    recorded_set,
    remote_specs,
    short_hash,
)
from surefind.engine.store.backends.milvus.server import Server, Vector
from surefind.engine.store.backends.milvus.words import DRIFT, Analysis, SetStatistics
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.table import ChunkTable
from surefind.engine.store.versions import batched


class Making(Protocol):
    """Makes the vectors of a collection."""

    kind: Vector
    words: SetStatistics | None

    @property
    def dimension(self) -> int: ...

    def begin(self, texts: Iterable[str]) -> None:
        """Prepares a new collection of these texts."""

    def extend(self, words: SetStatistics | None, added: Iterable[str], removed: Iterable[str]) -> bool:
        """Prepares to add texts to a collection, of which others were removed. Returns False if the collection must be
        written again."""

    def of(self, texts: Sequence[str]) -> list[Any]:
        """Returns the vectors of texts."""


class WordVectors:
    """The weights of `bm25`."""

    kind: Vector = "sparse"
    dimension = 0

    def __init__(self, retriever: Any) -> None:
        self._retriever = retriever
        self._analysis = Analysis(retriever.analyzer)
        self.words: SetStatistics | None = None

    def begin(self, texts: Iterable[str]) -> None:
        self.words = SetStatistics.of(texts, self._analysis)

    def extend(self, words: SetStatistics | None, added: Iterable[str], removed: Iterable[str]) -> bool:
        self.words = words and words.changed(added, removed, self._analysis)
        return self.words is not None and self.words.drift <= DRIFT

    def of(self, texts: Sequence[str]) -> list[Any]:
        assert self.words is not None
        return [self.words.document(self._retriever, self._analysis.count(text)) for text in texts]


class PointVectors:
    """The vectors of an encoder."""

    kind: Vector = "dense"
    words: SetStatistics | None = None

    def __init__(self, retriever: Any, services: Services) -> None:
        self._embedder = services.embedder(retriever.model)

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def begin(self, texts: Iterable[str]) -> None:
        pass

    def extend(self, words: SetStatistics | None, added: Iterable[str], removed: Iterable[str]) -> bool:
        return True

    def of(self, texts: Sequence[str]) -> list[Any]:
        vectors: list[Any] = self._embedder.embed(texts).tolist()
        return vectors


def making(retriever: Retriever, services: Services) -> Making:
    """Returns what makes the vectors of a retriever."""
    return WordVectors(retriever) if retriever.name == "bm25" else PointVectors(retriever, services)


_BATCH = 500
"""Rows in one call."""
_LISTED = 5_000
"""Versions that the expression of a set may list; with more, the set gets a new collection."""
_SET = re.compile(r"_set_(\d+)$")


@dataclass(frozen=True)
class _Job:
    """A set that is being written for one retriever."""

    contents: Contents
    layout: str
    table: ChunkTable
    spec: str
    making: Making
    name: str
    report: OnProgress


class MilvusBackend:
    """Implements `Backend`: `bm25` and `dense` in Milvus, everything else by a backend on this machine."""

    def __init__(self, catalogue: Catalogue, server: Server, isolated: bool = False, once: bool = False) -> None:
        if isolated:
            raise ConfigError(
                'isolation = "statistics" needs the local backend, because Milvus weighs words by all documents. '
                "Remove isolation below [access], or backend below [store]."
            )
        self._catalogue = catalogue
        self._local = LocalBackend(catalogue, once=once, elsewhere=is_remote)
        self._indexes, self._rows = self._local.indexes, self._local.rows
        self._server = server

    @cached_property
    def namespace(self) -> str:
        """The beginning of the names of this knowledge base's collections. A copy of its folder has another one."""
        folder = str(self._catalogue.path.parent.resolve())
        return f"surefind_{short_hash(str(self._catalogue.database.counter('catalogue')), folder)}_"

    # ------------------------------------------------------------ as on this machine

    def write(self, deltas: Sequence[Delta]) -> None:
        self._local.write(deltas)

    def uncut(self, contents: int, layout: str) -> list[int]:
        return self._local.uncut(contents, layout)

    def new_chunks(self, contents: Contents, layout: str, retriever: Retriever, services: Services) -> Sequence[Chunk]:
        return self._local.new_chunks(contents, layout, retriever, services)

    def crowded(
        self, contents: int, layout: str, retrievers: Sequence[Retriever], services: Services
    ) -> list[Retriever]:
        return self._local.crowded(contents, layout, retrievers, services)

    def merge(
        self, contents: Contents, layout: str, retriever: Retriever, services: Services, report: OnProgress
    ) -> Merged | None:
        return self._local.merge(contents, layout, retriever, services, report)

    def take_merged(self, contents: Contents, layout: str, merged: Merged, services: Services) -> bool:
        return self._local.take_merged(contents, layout, merged, services)

    def has(self, contents: int, layout: str) -> bool:
        return self._local.has(contents, layout)

    def folders(self, contents: int) -> list[Path]:
        return self._local.folders(contents)

    def open(self, contents: Contents, layout: str, services: Services, rules: Sequence[PathRule]) -> MilvusView:
        made = self._local.open_as(MilvusView, contents, layout, services, rules)
        made.connect(self._server, self._indexes, contents.number)
        return made

    # ------------------------------------------------------------ writing

    def build(
        self, contents: Contents, layout: str, retrievers: Sequence[Retriever], services: Services, report: OnProgress
    ) -> list[str]:
        built = self._local.build(contents, layout, retrievers, services, report)
        remote = remote_specs(retrievers, services)
        table = self._local.table(contents, layout)
        for spec, retriever in remote.items():
            key = record_key(contents.number, layout, spec)
            if not self._published(key, len(table)):
                job = _Job(contents, layout, table, spec, making(retriever, services), retriever.name, report)
                self._indexes.save(key, self._published_now(job), spec)
                built.append(retriever.name)
            self._rows.record_index(key, contents.number, layout, spec)
        return built

    def _published(self, key: str, rows: int) -> bool:
        """Returns whether a set is in Milvus, with all of its rows."""
        if not self._indexes.sound(key):
            return False
        try:
            check_complete(self._server, self._indexes.read(key, Record.load, whole=True), rows)
        except (NotBuiltError, CorruptIndexError):
            return False
        return True

    def _published_now(self, job: _Job) -> Record:
        """Writes a set: to the collection of an earlier set if that is possible, else to a new one. The alias is made
        last, when every row was counted."""
        earlier = self._extendable(job)
        made = self._extended(job, earlier) if earlier else None
        if made is None:
            made = self._anew(job)
            check = self._server.count(made.collection, made.expression)
            if check != len(job.table):
                raise NotBuiltError(f"Milvus kept {check} of {len(job.table)} passages. Run surefind sync again.")
        self._server.point(made.alias, made.collection)
        return made

    def _anew(self, job: _Job) -> Record:
        versions = job.table.versions
        collection = f"{self._index_name(job)}_{secrets.token_hex(4)}"
        job.making.begin(self._texts(job.layout, versions.tolist()))
        self._server.create(collection, job.making.kind, job.making.dimension)
        self._write(job, collection, np.ones(len(job.table), np.bool_))
        firsts = np.full(len(versions), job.contents.number, np.int64)
        nothing = np.zeros(0, np.int64)
        return self._record(job, collection, longs(versions.tolist()), firsts, nothing)

    def _extended(self, job: _Job, earlier: Record) -> Record | None:
        """Adds the new versions of a set to the collection of an earlier one. Returns None if the set needs a new
        collection."""
        collection = earlier.collection
        self._server.load(collection)
        self._server.delete(collection, f"first > {earlier.contents}")  # of a writer that was interrupted
        present = self._present(earlier)
        there, own = set(present.tolist()), set(job.table.versions.tolist())
        added = longs(list(own - there))
        excluded = longs(list(there - own))
        before = set(np.setdiff1d(earlier.versions, earlier.excluded).tolist())
        back = sorted((own & there) - before)  # a rollback brought them back
        made = self._record(job, collection, *_merged(earlier, present, added, job.contents.number), excluded)
        if len(made.exclusions()[1]) > _LISTED:
            return None
        if not job.making.extend(
            earlier.words,
            self._texts(job.layout, sorted({*added.tolist(), *back})),
            self._texts(job.layout, sorted(before - own)),
        ):
            return None
        made = self._record(job, collection, made.versions, made.firsts, excluded)
        self._write(job, collection, np.isin(job.table.rows[0], added))
        return made if self._server.count(collection, made.expression) == len(job.table) else None

    def _present(self, earlier: Record) -> Longs:
        """Returns the versions in a collection. Those that the catalogue no longer has are deleted from it."""
        gone = self._lost(earlier.excluded.tolist())
        self._server.delete_versions(earlier.collection, gone)
        return np.setdiff1d(earlier.versions, longs(gone))

    def _lost(self, versions: list[int]) -> list[int]:
        known = set[int]()
        for some in batched(versions, 500):
            marks = ",".join("?" * len(some))
            known |= {
                row for (row,) in self._catalogue.db.execute(f"SELECT row FROM versions WHERE row IN ({marks})", some)
            }
        return [version for version in versions if version not in known]

    def _record(self, job: _Job, collection: str, versions: Longs, firsts: Longs, excluded: Longs) -> Record:
        number = job.contents.number
        alias = f"{self._index_name(job)}_set_{number}"
        return Record(number, collection, alias, versions, firsts, excluded, job.making.words)

    def _index_name(self, job: _Job) -> str:
        return f"{self.namespace}{short_hash(job.layout, job.spec)}"

    def _extendable(self, job: _Job) -> Record | None:
        """Returns the newest set in a collection that this set can be added to: no other set was added after it."""
        for key, number, cut, spec in reversed(self._rows.indexes()):
            if cut != job.layout or spec != job.spec or number >= job.contents.number or not self._indexes.has(key):
                continue
            try:
                record = self._indexes.read(key, Record.load, whole=True)
            except CorruptIndexError:
                continue
            own = record.collection.startswith(self.namespace)
            if own and self._server.target(record.alias) == record.collection:
                newest = max(_sets(self._server.aliases(record.collection)).values())
                return record if newest == record.contents else None
        return None

    def _texts(self, layout: str, versions: Sequence[int]) -> Iterator[str]:
        """Yields the text of every chunk of some versions."""
        return (chunk.searchable for _, _, chunk in self._rows.every(self._rows.layout(layout), versions))

    def _write(self, job: _Job, collection: str, wanted: Any) -> None:
        """Writes the rows of the wanted places, in batches."""
        table, first = job.table, job.contents.number
        places = np.flatnonzero(wanted)
        versions = list(dict.fromkeys(table.rows[0, places].tolist()))
        facts = {m.version: m for m in job.contents.members()}
        what = f"Indexing {job.name}"
        texts = self._texts(job.layout, versions)
        for at in range(0, len(places), _BATCH):
            job.report(what, at, len(places))
            some = places[at : at + _BATCH]
            vectors = job.making.of([next(texts) for _ in some])
            own = {version: DocumentFields.of(facts[version]) for version in set(table.rows[0, some].tolist())}
            numbers = table.rows[:2, some].T.tolist()
            self._server.write(
                collection,
                [own[version].row(seq, first, vector) for (version, seq), vector in zip(numbers, vectors, strict=True)],
            )
        job.report(what, len(places), len(places))
        self._server.flush(collection)
        self._server.load(collection)

    def sizes(self, contents: int, layout: str) -> dict[str, int]:
        """Returns the bytes on this machine. Milvus does not say how many it uses."""
        return {index_spec_of(spec): size for spec, size in self._local.sizes(contents, layout).items()}

    # ------------------------------------------------------------ cleaning up

    def discard(self, after: int, gone: Sequence[int]) -> None:
        self._local.discard(after, gone)
        for key in self._indexes.list_keys():
            if (recorded_set(key) or 0) > after:
                self._indexes.drop(key)
        for collection in self._server.collections(self.namespace):
            self._keep(collection, lambda number: number <= after)

    def sweep(self, keep: Collection[int], gone: Sequence[int]) -> None:
        self._local.sweep(keep, gone)
        for collection in self._server.collections(self.namespace):
            if self._keep(collection, lambda number: number in keep):
                self._server.load(collection)
                self._server.delete_versions(collection, gone)

    def _keep(self, collection: str, wanted: Any) -> bool:
        """Deletes the aliases of sets that are not wanted, and the collection if it has none left. Returns whether the
        collection stays."""
        sets = _sets(self._server.aliases(collection))
        for alias, number in sets.items():
            if not wanted(number):
                self._server.unpoint(alias)
        stays = any(map(wanted, sets.values()))
        if not stays:
            self._server.drop(collection)
        return stays


def _sets(aliases: Sequence[str]) -> dict[str, int]:
    """Returns the number of the set of each alias."""
    return {alias: int(match[1]) for alias in aliases if (match := _SET.search(alias))}


def _merged(earlier: Record, present: Longs, added: Longs, first: int) -> tuple[Longs, Longs]:
    """Returns the versions of a collection after some were added, and the `first` of each."""
    kept = np.isin(earlier.versions, present)
    versions = np.concatenate([earlier.versions[kept], added])
    firsts = np.concatenate([earlier.firsts[kept], np.full(len(added), first, np.int64)])
    order = np.argsort(versions, kind="stable")
    return versions[order], firsts[order]
