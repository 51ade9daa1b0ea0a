"""Indexes on disk: one folder each, named by a hash of what it was built from, written completely or not at all.

A manifest lists the files of an index. Their sizes are compared when the index is opened. Their checksums are compared
when it is merged into another one, by `surefind doctor`, and by a server in the background. A table, by which
access is decided, is compared as a whole whenever it is opened.

Finds the indexes that a retriever needs: its own, and those of the retrievers that it wraps or uses.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, TypeVar

from surefind.base.abilities import declared
from surefind.base.disk.sealed import check_files, list_files, read_sealed, write_sealed
from surefind.base.errors import CorruptIndexError, SurefindError
from surefind.base.protocols import Index, Retriever, Services

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
