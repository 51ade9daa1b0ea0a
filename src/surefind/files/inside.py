"""Reading files inside files, and saying what was wrong with a part of one.

A reader that meets another file in its own (a member of an archive, an attachment) hands it to `read_inside`; one
that can read a file only in part says so with `complain`. Both work within a `Scope`, which counts what all the
nesting together has unpacked. Outside of one they work with the default limits.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from surefind.errors import SourceError, SurefindError
from surefind.files.limits import Limits
from surefind.files.readers import Readers
from surefind.types import Document

_PIECE = 1 << 20


class OverLimitError(SourceError):
    """An archive that costs more than it may: the whole of it is refused, not one member."""


@dataclass
class Scope:
    """One file that is being read, with everything inside it."""

    limits: Limits = field(default_factory=Limits)
    readers: Readers = field(default_factory=Readers)
    complaints: list[tuple[str, str]] = field(default_factory=list)
    """(member or nothing, reason)"""
    alive: Callable[[], None] = lambda: None
    unpacked: int = 0
    members: int = 0
    trail: tuple[str, ...] = ()

    def unpack(self, size: int) -> None:
        self.unpacked += size
        if self.unpacked > self.limits.unpacked_mb * 1e6:
            raise OverLimitError(f"unpacks to more than {self.limits.unpacked_mb:g} MB (max_unpacked_mb)")

    def enter(self) -> None:
        self.members += 1
        if self.members > self.limits.members:
            raise OverLimitError(f"holds more than {self.limits.members:,} files (max_members)")
        if len(self.trail) > self.limits.nesting:
            raise OverLimitError(f"nests archives more than {self.limits.nesting} deep (max_nesting)")


_SCOPE: ContextVar[Scope | None] = ContextVar("scope", default=None)


@contextlib.contextmanager
def reading(limits: Limits, readers: Readers, alive: Callable[[], None] = lambda: None) -> Iterator[Scope]:
    scope = Scope(limits, readers, alive=alive)
    token = _SCOPE.set(scope)
    try:
        yield scope
    finally:
        _SCOPE.reset(token)


def scope() -> Scope:
    """That of the file being read; a fresh one where a reader is called by itself."""
    return _SCOPE.get() or Scope()


def complain(reason: str, inside: str = "") -> None:
    """Note what could not be read; the rest of the file is taken in."""
    here = scope()
    here.complaints.append(("/".join((*here.trail, *([inside] if inside else []))), reason))


def still_working() -> None:
    """For work that is long by nature and comes in known steps, such as recognising a page: the time starts again."""
    scope().alive()


def read_inside(name: str, content: IO[bytes], id: str) -> Iterable[Document]:
    """The documents of a file inside the one being read; its own troubles are complaints."""
    with reading_on(name) as here:
        reader = here.readers.find(name)
        if reader is None:
            return []
        with tempfile.TemporaryDirectory(prefix="surefind-") as folder:
            try:
                return list(reader.read(_copied(content, Path(folder) / PurePosixPath(name).name, here), id))
            except OverLimitError:
                raise
            except (SurefindError, OSError) as error:
                complain(str(error))
            except Exception as error:  # a library met something it did not expect: this member, not the archive
                complain(f"cannot be read ({type(error).__name__}: {error})")
    return []


@contextlib.contextmanager
def reading_on(name: str) -> Iterator[Scope]:
    """One level further in, in the scope there is or in a new one."""
    here = scope()
    token = _SCOPE.set(here)
    before = here.trail
    here.trail = (*before, name)
    try:
        here.enter()
        yield here
    finally:
        here.trail = before
        _SCOPE.reset(token)


def _copied(content: IO[bytes], path: Path, here: Scope) -> Path:
    """On disk, counted as it comes: what an archive claims of its members' sizes is not to be believed."""
    size = 0
    with path.open("wb") as file:
        while piece := content.read(_PIECE):
            here.unpack(len(piece))
            size += len(piece)
            if size > here.limits.file_mb * 1e6:
                raise SourceError(f"is larger than {here.limits.file_mb:g} MB (max_file_mb)")
            file.write(piece)
    return path
