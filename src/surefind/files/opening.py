"""Opens a file that a scan found, only if it is still the same file, and without blocking on a pipe.

Between the scan and the reading, somebody may replace the file, or a folder above it, with a link. Readers and their
libraries open files by name, so the name is checked before they open the file and again when they are done.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # opening a pipe without a writer would block
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class ReplacedError(OSError):
    """The path no longer leads to the file that was found. It is an `OSError`, which the next sync tries again, and not
    a `SourceError`, because it says nothing about the file that was found."""

    def __init__(self) -> None:
        super().__init__("was replaced during the sync; the next sync checks it again")


def kind_of(mode: int) -> str:
    """Names the kind of a special file, such as `a named pipe`."""
    return _KINDS.get(stat.S_IFMT(mode), "a special file")


@contextlib.contextmanager
def held(path: Path, real: str) -> Iterator[None]:
    """Checks at the start and at the end of the block that `path` leads to the regular file `real`, as it did when it
    was found. Raises `ReplacedError` if not. For readers that open `path` by name."""
    number, found = _opened(real)
    try:
        _check(path, real, number, found)
        yield
        _check(path, real, number, found)
    finally:
        os.close(number)


def read_bytes(path: Path, real: str) -> bytes:
    """Reads the file at `path`. Raises `ReplacedError` if the path does not lead to `real`."""
    number, found = _opened(real)
    try:
        pieces = [os.read(number, found.st_size + 1)]  # reads all of a regular file, unless it is growing
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
            raise ReplacedError from None
        raise
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode):
        os.close(number)
        raise ReplacedError
    return number, found


def _check(path: Path, real: str, number: int, found: os.stat_result) -> None:
    """Raises `ReplacedError` unless the opened file is the one that `path` leads to now.

    The opened file is compared, so that a link that was there for a moment is noticed too."""
    try:
        if str(path) == real == os.readlink(f"/proc/self/fd/{number}"):  # noqa: PTH115 - one fast system call
            return
    except OSError:  # a system without /proc
        pass
    try:
        same = os.path.realpath(path) == real and os.path.samestat(found, os.lstat(real))
    except OSError:
        same = False
    if not same:
        raise ReplacedError
