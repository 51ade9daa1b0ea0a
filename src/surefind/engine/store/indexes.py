"""Indexes on disk: one folder each, named by a hash of what it was built from, written completely or not at all.

A manifest lists the files of an index. Their sizes are compared when the index is opened. Their checksums are compared
when it is merged into another one, by `surefind doctor`, and by a server in the background. A table, by which access is
decided, is compared as a whole whenever it is opened.

An index folder either holds an index, or lists the folders of its parts (`parts.json`) with the place of each chunk of
a part in the whole: a sync that changes little adds a small part to a large one, which stays as it is. A part is never
changed: a chunk that is gone has no place any more. Small parts are merged with what is added. All parts are merged
when too much of the largest one is gone or outside it. This takes long, so it is done after the index is published, and
without the writer's lock (`merge`). The result is a part like others. A writer takes it in (`take_merged`), as far as
it fits the index of that time: it lies beside that, and the next index is made from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from surefind.base import spec
from surefind.base.abilities import Growing, Part, asks_llm, declared, implements
from surefind.base.disk.arrays import read_array
from surefind.base.disk.sealed import check_files, list_files, read_sealed, write_sealed
from surefind.base.errors import CorruptIndexError, SurefindError
from surefind.base.protocols import Extractor, Index, Progress, Retriever, Reuse, Services
from surefind.base.types import Chunk, IntArray
from surefind.engine.store.table import Longs

FORMAT = 5
"""The format of the files. Increase it when the files change: an index of another format is never read or reused."""
MANIFEST = "manifest.json"
"""The file that lists the files of an index with their sizes and checksums."""
TABLE = "table"
"""The spec under which a table of chunks is recorded."""
PART = "part"
"""The spec under which a part of an index is recorded."""
_ASIDE = ".writing-"
"""The prefix of folders that are being written."""
Loaded = TypeVar("Loaded")


class Saving(Protocol):
    """Anything that can write itself into a folder: an index or a table."""

    def save(self, folder: Path) -> None: ...


class IndexStore:
    """Saves, checks and loads indexes by key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: set[str] = set()
        """The keys whose checksums were compared and are right."""

    def has(self, key: str) -> bool:
        """Returns whether an index exists, without checking its files."""
        return (self.folder / key / MANIFEST).exists()

    def sound(self, key: str) -> bool:
        """Returns whether an index exists, with files of the right sizes."""
        with contextlib.suppress(CorruptIndexError):
            if self.has(key):
                self._verify(key, sizes_alone=True)
                return True
        return False

    def intact(self, key: str) -> bool:
        """Returns whether an index exists and matches its checksums. Each is read once."""
        with contextlib.suppress(CorruptIndexError):
            if self.has(key) and key not in self._known:
                self._verify(key)
                self._known.add(key)
        return key in self._known

    def is_unfinished(self, key: str) -> bool:
        """Returns whether this is what is left of an index that was being written."""
        return key.startswith(_ASIDE)

    def _forget(self, key: str) -> None:
        self._known.discard(key)

    def save(self, key: str, made: Saving, spec: str) -> None:
        """Writes an index into a temporary folder, flushes and renames it: a crash leaves all of it or nothing."""
        aside = self.folder / f"{_ASIDE}{key}"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            self._write(aside, made, spec)
        except BaseException:  # a full disk would stay full
            shutil.rmtree(aside, ignore_errors=True)
            raise
        self._put(key, aside)

    def take(self, key: str, other: IndexStore) -> None:
        """Moves an index from another store on the same disk to this one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._put(key, other.folder / key)

    def _put(self, key: str, folder: Path) -> None:
        final = self.folder / key
        self._forget(key)
        shutil.rmtree(final, ignore_errors=True)
        folder.rename(final)
        _flush(self.folder)

    def _write(self, folder: Path, made: Saving, spec: str) -> None:
        made.save(folder)
        write_sealed(folder / MANIFEST, {"format": FORMAT, "spec": spec, "files": list_files(folder)})
        for path in (*folder.rglob("*"), folder):
            _flush(path)

    def load(self, key: str, retriever: Retriever, services: Services) -> Index:
        """Loads the index of a retriever, which checks what it relies on."""
        return self.read(key, lambda folder: retriever.load(folder, services))

    def read(self, key: str, load: Callable[[Path], Loaded], whole: bool = False) -> Loaded:
        """Returns what `load` reads from the folder of an index, after checking the sizes of its files; if `whole`,
        their checksums, too. Raises `CorruptIndexError`."""
        self._verify(key, sizes_alone=not whole)
        try:
            return load(self.folder / key)
        except SurefindError:
            raise
        except Exception as error:  # just deleted, or made by hand: numpy and zipfile raise errors of their own
            raise CorruptIndexError(f"The index in {self.folder / key} cannot be read ({error}).") from error

    def _verify(self, key: str, sizes_alone: bool = False) -> None:
        folder = self.folder / key
        try:
            manifest = read_sealed(folder / MANIFEST)
            if manifest.get("format") != FORMAT:
                raise CorruptIndexError(f"The index in {folder} was written by another release of Surefind.")
            check_files(folder, manifest["files"], sizes_alone)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptIndexError(f"The index in {folder} cannot be read ({error}).") from error

    def size(self, key: str) -> int:
        """Returns the bytes of an index on disk."""
        return sum(path.stat().st_size for path in (self.folder / key).rglob("*") if path.is_file())

    def list_keys(self) -> list[str]:
        return [path.name for path in self.folder.iterdir() if path.is_dir()] if self.folder.exists() else []

    def clear(self) -> None:
        """Deletes everything, also what was not finished."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def drop(self, key: str) -> None:
        """Deletes an index. The manifest goes first, so that a half-deleted index does not count as existing."""
        self._forget(key)
        (self.folder / key / MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(self.folder / key, ignore_errors=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def table_key(contents: int, layout: str) -> str:
    """Returns the key of the table of a set in a layout."""
    digest = hashlib.blake2b(layout.encode(), digest_size=8).hexdigest()
    return f"{TABLE}-{contents}-{digest}-{FORMAT}"


def set_of(key: str) -> int | None:
    """Returns the number of the set from the key of a table; None for the key of an index."""
    kind, _, rest = key.partition("-")
    number = rest.partition("-")[0]
    return int(number) if kind == TABLE and number.isdigit() else None


def index_key(fingerprint: str, retriever: Retriever, services: Services) -> str:
    """Returns the key of an index: a hash of the table's fingerprint, the index spec and the format."""
    parts = f"{fingerprint}\0{retriever.index_spec(services)}\0{FORMAT}"
    return hashlib.blake2b(parts.encode(), digest_size=12).hexdigest()


def innermost(retriever: Retriever) -> Retriever:
    """Unwraps a retriever to the one that has an index: `dense` of `hyde(retriever=dense)`."""
    inner = declared(retriever).inner
    return retriever if inner is None else innermost(inner)


def needed(retrievers: Iterable[Retriever], services: Services) -> list[Retriever]:
    """Returns every retriever whose index is needed, once per index. A used retriever comes before its user."""
    by_index: dict[str, Retriever] = {}
    for retriever in retrievers:
        inner = innermost(retriever)
        for used in needed(declared(inner).uses, services):
            by_index.setdefault(used.index_spec(services), used)
        by_index.setdefault(inner.index_spec(services), inner)
    return list(by_index.values())


def identity(retriever: Retriever, services: Services) -> str:
    """Returns the specs of all indexes that a retriever's results depend on."""
    return " + ".join(used.index_spec(services) for used in needed([retriever], services))


def each_needed(retrievers: Iterable[Retriever]) -> list[Retriever]:
    """Returns every retriever whose index is needed, also those that share one: a backend may need an index for each
    choice of their parameters."""
    each: dict[Retriever, None] = {}
    for retriever in retrievers:
        inner = innermost(retriever)
        each |= dict.fromkeys((*each_needed(declared(inner).uses), inner))
    return list(each)


def paid_extractor(retriever: Retriever) -> Extractor | None:
    """Returns the extractor that asks a language model about every passage while the retriever's index is built; None
    if there is none."""
    extract = getattr(innermost(retriever), "extract", "")  # the parameter of retrievers of entities
    reader = cast(Extractor, spec.make("extract", extract)) if extract else None
    return reader if asks_llm([reader]) else None


def offline(retriever: Retriever) -> Retriever:
    """Returns the innermost retriever with a rule-based extractor, which can be timed free of charge."""
    inner: Any = innermost(retriever)
    return cast(Retriever, replace(inner, extract="phrases") if paid_extractor(inner) else inner)


PARTS = "parts.json"
MIN_PARTED_CHUNKS = 20_000
"""The fewest chunks of an index that consists of parts. Below, all of it is written again in about a second."""
MERGE_SHARE = 4
"""`merge` merges all parts if more than one chunk in this many is gone from the largest part, or is outside it."""
BUILD_SHARE = 2
"""As `MERGE_SHARE`, for an index that is being made: if nobody called `merge`, or each time it was interrupted."""
_MERGE_RATIO = 2
"""A part is merged with the new chunks unless it is more than this many times as large."""


@dataclass(frozen=True, eq=False)
class StoredPart:
    """A part on disk: its key, and the place of each of its chunks in the whole; -1 if the chunk is gone."""

    key: str
    places: IntArray

    @property
    def alive(self) -> int:
        return int(np.count_nonzero(self.places >= 0))


@dataclass(frozen=True)
class _Whole:
    """An index of parts, to be saved; without `index`, only a list of parts that the next index is made from."""

    pieces: Sequence[StoredPart]
    index: Index | None = None

    def save(self, folder: Path) -> None:
        (folder / PARTS).write_text(json.dumps([piece.key for piece in self.pieces]), encoding="utf-8")
        for i, piece in enumerate(self.pieces):
            np.save(folder / f"places-{i}.npy", piece.places)
        if self.index is not None:
            self.index.save(folder)


class Parts:
    """Saves, checks and loads indexes that may consist of parts."""

    def __init__(self, store: IndexStore) -> None:
        self.store = store

    def keys(self, key: str) -> list[str]:
        """Returns the keys of the parts of an index; none if it has none."""
        path = self.store.folder / key / PARTS
        try:
            return [str(part) for part in json.loads(path.read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError):  # it has none, or is damaged, which its checksum shows
            return []

    def has(self, key: str) -> bool:
        """Returns whether an index exists, with all its parts, without checking its files."""
        return self.store.has(key) and all(map(self.store.has, self.keys(key)))

    def sound(self, key: str) -> bool:
        """Returns whether an index and all its parts exist, with files of the right sizes."""
        return self.store.sound(key) and all(map(self.store.sound, self.keys(key)))

    def size(self, key: str) -> int:
        """Returns the bytes of an index and of its parts on disk."""
        return sum(map(self.store.size, [key, *self.keys(key)]))

    def load(self, key: str, retriever: Retriever, services: Services) -> Index:
        """Loads the index of a retriever. Raises `CorruptIndexError`."""
        if not (self.store.folder / key / PARTS).exists() or not implements(retriever, Growing):
            return self.store.load(key, retriever, services)
        pieces = self.store.read(key, self._pieces)
        parts = [Part(self.store.load(piece.key, retriever, services), piece.places) for piece in pieces]
        for part in parts:
            if len(part.index) != len(part.places):
                raise CorruptIndexError(f"The index in {self.store.folder / key} does not fit its parts.")
        return self.store.read(key, lambda folder: retriever.join(parts, services, folder))

    def _pieces(self, folder: Path) -> list[StoredPart]:
        keys = self.keys(folder.name)
        return [StoredPart(key, read_array(folder / f"places-{i}.npy", np.int32)) for i, key in enumerate(keys)]

    def crowded(self, key: str) -> bool:
        """Returns whether `merge` should merge the parts of an index, and has not done so."""
        if not self.store.has(key) or self.store.has(_merged_key(key)):
            return False
        try:
            pieces = self.store.read(key, self._pieces)
        except CorruptIndexError:  # the next sync makes it again
            return False
        return len(pieces) > 1 and _scattered(pieces, sum(piece.alive for piece in pieces), MERGE_SHARE)

    def merge(
        self,
        key: str,
        count: int,
        chunks_at: Callable[[Longs], Sequence[Chunk]],
        retriever: Growing,
        services: Services,
        progress: Progress,
        beside: IndexStore,
    ) -> None:
        """Merges all parts of an index, and saves the result in another store. Nothing in this store is changed."""
        every = np.arange(count)
        pieces = self.store.read(key, self._pieces)
        made = retriever.build(
            chunks_at(every), services, self._reuse(self._intact(pieces), every, count, retriever, services), progress
        )
        beside.save(_merged_key(key), made, retriever.index_spec(services))

    def take_merged(self, merged: str, key: str, places: IntArray, spec: str, beside: IndexStore) -> list[str]:
        """Takes in what `merge` made of the index `merged`, for the one that will follow the index `key`. These are the
        same, unless a writer was faster than the merge. `places` has the place of each merged chunk in `key`, or -1.
        Returns the keys of what was taken in; none if too little of it fits."""
        whole = StoredPart(_merged_key(merged), places)
        if merged == key:
            self.store.take(whole.key, beside)
            return [whole.key]
        pieces = self.store.read(key, self._pieces)
        alive = sum(piece.alive for piece in pieces)
        if not alive:  # it is one part now
            return []
        done = np.zeros(alive, np.bool_)
        done[places[places >= 0]] = True
        rest = [
            StoredPart(piece.key, np.where((piece.places >= 0) & ~done[piece.places], piece.places, -1))
            for piece in pieces
        ]
        pieces = [whole, *(piece for piece in rest if piece.alive)]
        if _scattered([whole], alive, MERGE_SHARE):
            return []
        self.store.take(whole.key, beside)
        self.store.save(_merged_key(key), _Whole(pieces), spec)
        return [whole.key, _merged_key(key)]

    def left(self, key: str, count: int, origin: IntArray) -> list[StoredPart]:
        """Returns the sound parts of an earlier index of `count` chunks, with places in the new one. `origin` has the
        earlier place of each chunk, or -1. An index without parts, or whose parts were merged, is one part; a part
        with a file of the wrong size is deleted."""
        now = np.full(count, -1, np.int32)
        now[origin[origin >= 0]] = np.flatnonzero(origin >= 0)
        whole = _merged_key(key) if self.sound(_merged_key(key)) else key
        pieces = self.store.read(whole, self._pieces) or [StoredPart(whole, np.arange(count, dtype=np.int32))]
        parts = []
        for piece in pieces:
            if not self.store.sound(piece.key):
                self.store.drop(piece.key)
                continue
            places = np.where(piece.places >= 0, now[np.maximum(piece.places, 0)], -1).astype(np.int32)
            parts.append(StoredPart(piece.key, places))
        return [piece for piece in parts if piece.alive]

    def grow(
        self,
        key: str,
        count: int,
        pieces: Sequence[StoredPart],
        chunks_at: Callable[[Longs], Sequence[Chunk]],
        retriever: Growing,
        services: Services,
        progress: Progress,
    ) -> None:
        """Saves the index of `count` chunks, made of earlier parts and one new part with all other chunks."""
        kept = staying(pieces, count)
        covered = np.zeros(count, np.bool_)
        for piece in kept:
            covered[piece.places[piece.places >= 0]] = True
        others = np.flatnonzero(~covered)
        merged = self._intact([piece for piece in pieces if piece not in kept])
        if len(others) or not kept:
            own = _part_key(key, others) if kept else key
            if self.keys(own) or not self.store.sound(own):  # an index of parts cannot be one of its own parts
                reuse = self._reuse(merged, others, count, retriever, services)
                made = retriever.build(chunks_at(others), services, reuse, progress)
                self.store.save(own, made, retriever.index_spec(services))
            kept = [*kept, StoredPart(own, others.astype(np.int32))]
        if [piece.key for piece in kept] != [key]:
            parts = []
            for part in kept:
                try:
                    parts.append(Part(self.store.load(part.key, retriever, services), part.places))
                except CorruptIndexError:  # its size is right, and its numbers are not: it is made again
                    self.store.drop(part.key)
                    rest = [piece for piece in pieces if piece.key != part.key]
                    self.grow(key, count, rest, chunks_at, retriever, services, progress)
                    return
            self.store.save(key, _Whole(kept, retriever.join(parts, services)), retriever.index_spec(services))

    def _intact(self, pieces: Sequence[StoredPart]) -> list[StoredPart]:
        """Returns the parts that match their checksums. The chunks of others are read again."""
        return [piece for piece in pieces if self.store.intact(piece.key)]

    def _reuse(
        self, merged: Sequence[StoredPart], others: Longs, count: int, retriever: Growing, services: Services
    ) -> Reuse | None:
        """Returns the parts that are merged into the new one as one index, and the place of each chunk in it."""
        if not merged:
            return None
        alive = np.zeros(count, np.bool_)
        for piece in merged:
            alive[piece.places[piece.places >= 0]] = True
        numbers = np.where(alive, np.cumsum(alive) - 1, -1).astype(np.int32)
        parts = [
            Part(
                self.store.load(piece.key, retriever, services),
                np.where(piece.places >= 0, numbers[np.maximum(piece.places, 0)], -1).astype(np.int32),
            )
            for piece in merged
        ]
        return Reuse(retriever.join(parts, services), numbers[others])


def staying(pieces: Sequence[StoredPart], count: int) -> list[StoredPart]:
    """Returns the parts that stay as they are in an index of `count` chunks, the largest first. The others are merged
    into the new part."""
    if not pieces or count < MIN_PARTED_CHUNKS:
        return []
    if _scattered(pieces, count, BUILD_SHARE):
        return []
    largest, *smaller = sorted(pieces, key=lambda piece: piece.alive, reverse=True)
    added = count - sum(piece.alive for piece in pieces)
    kept = [largest]
    for piece in reversed(smaller):
        if len(kept) == 1 and piece.alive <= _MERGE_RATIO * added:
            added += piece.alive
        else:
            kept.insert(1, piece)
    return kept


def _scattered(pieces: Sequence[StoredPart], count: int, share: int) -> bool:
    """Whether more than one chunk in `share` is gone from the largest part, or outside it."""
    largest = max(pieces, key=lambda piece: piece.alive)
    gone, outside = len(largest.places) - largest.alive, count - largest.alive
    return gone * share > len(largest.places) or outside * share > count


def _merged_key(key: str) -> str:
    """The key of the result of merging the parts of an index."""
    return hashlib.blake2b(f"{key} merged".encode(), digest_size=12).hexdigest()


def _part_key(key: str, places: Longs) -> str:
    """The key of a part. The key of the whole stands for its chunks, so it and the places say what the part holds."""
    return hashlib.blake2b(key.encode() + np.ascontiguousarray(places, "<i8").tobytes(), digest_size=12).hexdigest()
