"""Reads arrays of an index, and checks them before compiled code uses them.

A kernel does not check its indexes: a number out of range in a file reads or writes memory of others, or ends the
process. Checksums do not help: they are not compared when an index is opened, and whoever makes an index by hand makes
its checksums, too. So the arrays are checked once, when an index is opened, and large ones where they are first used.
Every failure is a `ValueError`, which `IndexStore` reports as a damaged index.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sized
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from surefind.base.errors import REPAIR, CorruptIndexError

T = TypeVar("T")
_READING = threading.Lock()
_TRIES = 5
_BLOCK = 1 << 14
"""The numbers of a large array that are checked together."""
LARGE = 1 << 25
"""The bytes above which an array is large. Smaller ones are checked in some milliseconds."""


def read_array(path: Path, dtype: DTypeLike, ndim: int = 1, mapped: bool = True) -> NDArray[Any]:
    """Reads an array of this type and number of dimensions; `mapped` leaves it on disk until it is used."""
    array: NDArray[Any] = _parsed(lambda: np.asarray(np.load(path, mmap_mode="r" if mapped else None)))
    return checked_array(path.name, array, dtype, ndim)


def read_archive(path: Path) -> dict[str, NDArray[Any]]:
    """Reads all arrays of an .npz file by their names."""

    def read() -> dict[str, NDArray[Any]]:
        with np.load(path) as data:
            return dict(data)

    return _parsed(read)


def _parsed(read: Callable[[], T]) -> T:
    """Reads one file at a time. numpy parses the head of an array with `ast`, which Python cannot do in two threads at
    once: "SystemError: AST constructor recursion depth mismatch". Another part of the program may use `ast` as well, so
    it is tried again."""
    with _READING:
        for _ in range(_TRIES - 1):
            with contextlib.suppress(SystemError):
                return read()
        return read()


def checked_array(name: str, array: NDArray[Any], dtype: DTypeLike, ndim: int = 1) -> NDArray[Any]:
    """Returns the array if it has this type and number of dimensions."""
    if array.dtype != np.dtype(dtype) or array.ndim != ndim or not array.flags.c_contiguous:
        wanted = f"{ndim} dimensions of {np.dtype(dtype)}"
        raise ValueError(f"{name} has {array.ndim} dimensions of {array.dtype} instead of {wanted}")
    return array


def check_offsets(name: str, offsets: NDArray[Any], rows: int, total: int) -> None:
    """Checks that offsets go from 0 to `total`, one more than there are rows, and never decrease."""
    check_length(name, offsets, rows + 1)
    if offsets[0] != 0 or offsets[-1] != total or bool((np.diff(offsets) < 0).any()):
        raise ValueError(f"{name} must rise from 0 to {total}")


def check_range(name: str, values: NDArray[Any], low: int, end: int) -> None:
    """Checks that all values are at least `low` and below `end`."""
    if values.size and not (values.min() >= low and values.max() < end):
        raise ValueError(f"{name} has numbers outside {low} to {end - 1}")


class LargeRange:
    """As `check_range`, for a large array on disk: numbers are checked when they are first used, so that opening the
    array reads none of it. Threads may share it."""

    def __init__(self, path: Path, values: NDArray[Any], low: int, end: int) -> None:
        self._path, self._values, self._low, self._end = path, values, low, end
        self._checked = np.zeros(-(-len(values) // _BLOCK), np.bool_)

    def use(self, first: int, last: int) -> None:
        """Checks the numbers from `first` to `last` that were not checked before."""
        low, high = first // _BLOCK, -(-last // _BLOCK)
        for block in (low + np.flatnonzero(~self._checked[low:high])).tolist():
            try:
                part = self._values[block * _BLOCK : (block + 1) * _BLOCK]
                check_range(self._path.name, part, self._low, self._end)
            except ValueError as error:
                raise CorruptIndexError(f"The index file {self._path} is damaged ({error}). {REPAIR}") from error
            self._checked[block] = True


def range_checked(path: Path, values: NDArray[Any], low: int, end: int) -> list[LargeRange]:
    """Checks all numbers of a small array now. Returns what checks those of a large one."""
    if values.nbytes > LARGE:
        return [LargeRange(path, values, low, end)]
    check_range(path.name, values, low, end)
    return []


def check_length(name: str, values: Sized, length: int) -> None:
    if len(values) != length:
        raise ValueError(f"{name} has {len(values)} entries instead of {length}")


def strings(name: str, values: Any) -> list[str]:
    """Returns the list if it contains strings alone."""
    if not isinstance(values, list) or not {str}.issuperset(map(type, values)):
        raise ValueError(f"{name} is not a list of strings")
    return values
