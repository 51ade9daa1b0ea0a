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
from io import BufferedReader
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
def opened(path: Path, real: str) -> Iterator[BufferedReader]:
    """The file at `path`, which led to `real` when it was found. Raises `SwappedError` if it does not, or no longer
    does at the end of the block."""
    try:
        number = os.open(real, _FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, or a socket
            raise SwappedError from None
        raise
    with os.fdopen(number, "rb") as file:
        _check(path, real, number)
        yield file
        _check(path, real, number)


def _check(path: Path, real: str, number: int) -> None:
    """The opened file is the one that has the name now, so a link that was there for a moment is noticed too."""
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode):
        raise SwappedError
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
