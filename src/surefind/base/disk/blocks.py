"""Checksums of large files by blocks: a block is checked when it is first used, so that opening reads none of them.

manifest = {"files": …, "blocks": list_blocks(folder)}
watch = watched(folder, "docs.npy", docs)
watch.use(first, last)        # raises `CorruptIndexError` if a block of docs[first:last] is damaged
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.base.errors import CorruptIndexError
from surefind.base.running.cores import usable_cores
from surefind.base.running.workers import Workers

MANIFEST = "manifest.json"
"""The file that lists the files of an index with their checksums."""
BLOCK = 1 << 16
"""The bytes of a block. A rare word or a single vector costs the check of one block, so blocks are small."""
LARGE = 1 << 25
"""Files above this size have blocks. Smaller ones are checked as a whole, which takes some 25 ms at most."""
_SHARE = 128
"""The blocks that one thread checks at a time: 8 MB. With 2 or 32 MB a sync of a large knowledge base took longer."""
Blocks = Mapping[str, Sequence[int]]
"""The checksums of the blocks of large files, by name."""
Check = Callable[[NDArray[Any]], None]
"""Checks the values of some rows before compiled code uses them. Raises `ValueError`."""


def list_blocks(folder: Path) -> dict[str, list[int]]:
    """Returns the checksums of the blocks of every large file in a folder."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and path.stat().st_size > LARGE]
    return {path.name: _sums(path) for path in files}


def check_blocks(folder: Path, blocks: Blocks, threads: int) -> None:
    """Raises `ValueError` or `OSError` if a block of a listed file differs. Many blocks are read and summed at a time:
    a thread that stops between small ones waits for the others each time, until Python lets it go on."""
    for name, sums in blocks.items():
        path = folder / name
        size = path.stat().st_size
        if len(sums) != -(-size // BLOCK):
            raise ValueError(f"the checksums of {name} do not fit its size")
        with Workers(threads) as workers:
            read_sum = partial(_read_sum, path, _Buffer())
            for at, checksum in enumerate(workers.map(read_sum, range(0, size, BLOCK * _SHARE))):
                if checksum != joined_sum(sums[at * _SHARE : (at + 1) * _SHARE], size - at * BLOCK * _SHARE):
                    raise ValueError(f"the checksum of {name} differs")


class _Buffer(threading.local):
    """The memory into which a thread reads. Fresh memory for each read would be cleared by the system each time, which
    took a third of the check."""

    def __init__(self) -> None:
        self.bytes = memoryview(bytearray(BLOCK * _SHARE))


def _read_sum(path: Path, buffer: _Buffer, start: int) -> int:
    with path.open("rb") as file:  # buffered, since a plain read may end early
        file.seek(start)
        return zlib.crc32(buffer.bytes[: file.readinto(buffer.bytes)])


def joined_sum(sums: Sequence[int], size: int) -> int:
    """Returns the CRC-32 of successive blocks as a whole, given that of each. The last one ends after `size` bytes, if
    it is shorter than the others."""
    total = 0
    for i, checksum in enumerate(sums):
        total = checksum ^ _moved(total, min(BLOCK, size - i * BLOCK))
    return total


def _moved(checksum: int, by: int) -> int:
    """Returns what a CRC-32 adds to that of `by` bytes after it. This is linear in its bits: crc(a + b) is
    crc(b) ^ moved(crc(a), len(b))."""
    tables = _tables(by)
    return (
        tables[0][checksum & 255]
        ^ tables[1][checksum >> 8 & 255]
        ^ tables[2][checksum >> 16 & 255]
        ^ tables[3][checksum >> 24]
    )


@lru_cache(8)
def _tables(by: int) -> list[list[int]]:
    """For each byte of a CRC-32 and each of its values, what `by` zero bytes make of it."""
    zeros = bytes(by)
    bits = [zlib.crc32(zeros, 1 << bit) ^ zlib.crc32(zeros) for bit in range(32)]
    tables = []
    for byte in range(0, 32, 8):
        table = [0]
        for bit in bits[byte : byte + 8]:
            table += [known ^ bit for known in table]
        tables.append(table)
    return tables


def _sums(path: Path) -> list[int]:
    starts = range(0, path.stat().st_size, BLOCK * _SHARE)
    with Workers(usable_cores()) as workers:
        parts = workers.map(lambda at: _read_sums(path, at), starts)
        return [value for part in parts for value in part]


def _read_sums(path: Path, start: int) -> list[int]:
    """Reads the blocks into one buffer, because a mapped file would count as memory of this process."""
    buffer = memoryview(bytearray(BLOCK))
    checksums: list[int] = []
    with path.open("rb") as file:
        file.seek(start)
        while len(checksums) < _SHARE and (size := file.readinto(buffer)):
            checksums.append(zlib.crc32(buffer[:size]))
    return checksums


class Watch:
    """Checks the blocks of a mapped array when they are first used. Threads may share it."""

    def __init__(self, path: Path, array: NDArray[Any], sums: Sequence[int], check: Check | None) -> None:
        self._path = path
        self._array = array
        self._data = array.reshape(-1).view(np.uint8)
        self._sums = sums
        self._check = check
        self._row = array.nbytes // max(1, len(array))
        size = path.stat().st_size
        self._header = size - array.nbytes
        self._intact = np.zeros(len(sums), np.bool_)
        if len(sums) != -(-size // BLOCK):
            raise ValueError(f"the checksums of {path.name} do not fit its size")
        with path.open("rb") as file:
            self._before = zlib.crc32(file.read(self._header))

    def use(self, first: int, last: int) -> None:
        """Checks the blocks of rows `first` to `last` that were not checked before."""
        if last <= first:
            return
        low, high = (self._header + first * self._row) // BLOCK, (self._header + last * self._row - 1) // BLOCK + 1
        if not self._intact[low:high].all():
            self._verify(low + np.flatnonzero(~self._intact[low:high]))

    def use_rows(self, rows: NDArray[Any]) -> None:
        """Checks the blocks of single rows."""
        starts = self._header + rows.astype(np.int64) * self._row
        steps = [*range(0, self._row, BLOCK), self._row - 1]  # a row may be longer than a block
        blocks = np.unique(np.concatenate([(starts + step) // BLOCK for step in steps]))
        fresh = blocks[~self._intact[blocks]]
        if len(fresh):
            self._verify(fresh)

    def _verify(self, blocks: NDArray[np.int64]) -> None:
        for block in blocks.tolist():
            if self._checksum(block) != self._sums[block]:
                raise self._damaged("its checksum differs")
            if self._check:
                first = max(0, (block * BLOCK - self._header) // self._row)
                try:
                    self._check(self._array[first : ((block + 1) * BLOCK - self._header) // self._row + 1])
                except ValueError as error:
                    raise self._damaged(str(error)) from error
        self._intact[blocks] = True

    def _checksum(self, block: int) -> int:
        """The checksum of a block. The header of the file, which is not part of the array, is in the first one."""
        first, last = block * BLOCK - self._header, (block + 1) * BLOCK - self._header
        return zlib.crc32(self._data[max(0, first) : last].data, 0 if block else self._before)

    def _damaged(self, why: str) -> CorruptIndexError:
        return CorruptIndexError(f"The index file {self._path} is damaged ({why}). Rebuild it with: surefind sync.")


def watched(path: Path, array: NDArray[Any], check: Check | None = None) -> Watch | None:
    """Returns the watch over the array of a large file. For a small file, which is checked as a whole, the values are
    checked now, and there is none."""
    sums = _listed(path.parent).get(path.name) if path.stat().st_size > LARGE else None
    if sums is None:
        if check:
            check(array)
        return None
    return Watch(path, array, sums, check)


def _listed(folder: Path) -> Blocks:
    manifest = folder / MANIFEST
    if not manifest.exists():
        return {}
    blocks: Blocks = json.loads(manifest.read_text(encoding="utf-8")).get("blocks", {})
    return blocks
