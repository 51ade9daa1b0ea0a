"""Opening a file that a scan found: only if it is still the same file, and without waiting for a pipe.

Between the scan and the reading, somebody may put a link in the place of the file or of a folder above it. Readers and
their libraries open files by name, so a name is checked before they do and again when they are done.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe without a writer would block for ever
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class SwappedError(OSError):
    """The name leads elsewhere than it did. An `OSError`, because it says nothing about the file that was found."""

    def __init__(self) -> None:
        super().__init__("was replaced while the sync ran; the next sync looks at it again")


def kind_of(mode: int) -> str:
    """What a special file is: `a named pipe`."""
    return _KINDS.get(stat.S_IFMT(mode), "a special file")


@contextlib.contextmanager
def held(path: Path, real: str) -> Iterator[None]:
    """For a reader that opens `path` by name, which led to `real` when it was found. Raises `SwappedError` if it leads
    elsewhere at the beginning or at the end of the block."""
    number, found = _opened(real)
    try:
        _check(path, real, number, found)
        yield
        _check(path, real, number, found)
    finally:
        os.close(number)


def read_bytes(path: Path, real: str) -> bytes:
    """The content of the file at `path`, or `SwappedError` if it does not lead to `real`."""
    number, found = _opened(real)
    try:
        pieces = [os.read(number, found.st_size + 1)]  # a regular file: all of it, unless it is growing
        while pieces[-1]:
            pieces.append(os.read(number, found.st_size + 1))
        _check(path, real, number, found)
    finally:
        os.close(number)
    return b"".join(pieces)


def _opened(real: str) -> tuple[int, os.stat_result]:
    try:
        number = os.open(real, _FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, or a socket
            raise SwappedError from None
        raise
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode):
        os.close(number)
        raise SwappedError
    return number, found


def _check(path: Path, real: str, number: int, found: os.stat_result) -> None:
    """The opened file is the one that has the name now, so a link that was there for a moment is noticed too."""
    try:
        if str(path) == real == os.readlink(f"/proc/self/fd/{number}"):  # noqa: PTH115 - the kernel's word, at once
            return
    except OSError:  # a system without /proc
        pass
    try:
        same = os.path.realpath(path) == real and os.path.samestat(found, os.lstat(real))
    except OSError:
        same = False
    if not same:
        raise SwappedError
