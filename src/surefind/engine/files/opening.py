"""Opens a file that a scan found, only if it is still the same file, and without blocking on a pipe.

Between the scan and the reading, somebody may replace the file, or a folder above it, with a link. Readers and their
libraries open files by name, so the name is checked before they open the file and again when they are done.

Limits on what a file or a repository may cost. A file that exceeds a limit is skipped, and the reason is listed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from surefind.base.errors import SourceError

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # opening a pipe without a writer would block
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


_PIECE = 1 << 16
"""Bytes to read at a time, at least."""


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
    number, status = _opened(real)
    try:
        _check(path, real, number, status)
        yield
        _check(path, real, number, status)
    finally:
        os.close(number)


def read_bytes(path: Path, real: str, most_mb: float) -> bytes:
    """Reads the file at `path`. Raises `ReplacedError` if the path does not lead to `real`, and `SourceError` if there
    is more to read than `most_mb`: a file may grow while it is read, and files below /proc do not say their size."""
    number, status = _opened(real)
    try:
        content = _content(number, status, most_mb)
        _check(path, real, number, status)
    finally:
        os.close(number)
    return content


def read_file(path: Path, most_mb: float) -> bytes:
    """Reads a file by name, for readers. Raises `SourceError` if it is not a file, or too large. It never waits, even
    if somebody has put a pipe in the place of the file."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(f"is {kind_of(status.st_mode)}, not a file")
        return _content(number, status, most_mb)
    finally:
        os.close(number)


def _content(number: int, status: os.stat_result, most_mb: float) -> bytes:
    pieces, size = [], 0
    while piece := os.read(
        number, max(status.st_size + 1, _PIECE)
    ):  # reads all of a regular file, unless it is growing
        pieces.append(piece)
        size += len(piece)
        if size > most_mb * 1e6:
            raise SourceError(f"is larger than {most_mb:g} MB (max_file_mb)")
    return b"".join(pieces)


def _opened(real: str) -> tuple[int, os.stat_result]:
    try:
        number = os.open(real, _FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, or a socket
            raise ReplacedError from None
        raise
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        os.close(number)
        raise ReplacedError
    return number, status


def _check(path: Path, real: str, number: int, status: os.stat_result) -> None:
    """Raises `ReplacedError` unless the opened file is the one that `path` leads to now.

    The opened file is compared, so that a link that was there for a moment is noticed too."""
    try:
        if str(path) == real == os.readlink(f"/proc/self/fd/{number}"):  # noqa: PTH115 - one fast system call
            return
    except OSError:  # a system without /proc
        pass
    try:
        same = os.path.realpath(path) == real and os.path.samestat(status, os.lstat(real))
    except OSError:
        same = False
    if not same:
        raise ReplacedError


OUT_OF_MEMORY = 3
"""The exit code of a child process that has no memory left even to say so."""


@dataclass(frozen=True)
class FileLimits:
    """The limits of a file, and of a repository. Each is set in `[sync]` of surefind.toml, with `max_` in front."""

    file_mb: float = 50
    """Size of a file. Larger files are not opened."""
    seconds: float = 60
    """Time to read and cut one file, in a child process."""
    memory_mb: float = 2000
    """Memory for the data of the child process."""
    unpacked_mb: float = 200
    """Unpacked size of an archive or office file, and size of the text of a file, at all levels of nesting together."""
    members: int = 10_000
    """Files in an archive, at all levels of nesting together."""
    nesting: int = 3
    """Levels of archives inside archives."""
    ratio: float = 200
    """Unpacked size divided by packed size of one member. Documents stay far below this, zip bombs are far above."""
    repository_mb: float = 5000
    """Size of the files of a repository at one revision, all together, and of what git writes to fetch them."""
    repository_files: int = 500_000
    """Files of a repository at one revision."""
    repository_seconds: float = 600
    """Time of one git command."""
