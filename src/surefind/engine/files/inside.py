"""Reads files inside files, and records the parts of a file that could not be read.

A reader that finds another file in its own (a member of an archive, an attachment) passes it to `read_inside`. A
reader that can read only part of a file reports the rest with `complain`. A document that looks restricted, without an
access list that can be read, is left to the owner with `owner_only`; the other documents of its file are read. All use
the current `Scope`, which counts what was unpacked at all levels of nesting. Without a current scope the default limits
apply.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import IO

from surefind.base.abilities import declared
from surefind.base.access import EVERYTHING
from surefind.base.errors import SourceError, SurefindError
from surefind.base.protocols import Reader
from surefind.base.types import Document
from surefind.engine.files.access_head import BY_PATH, access_line
from surefind.engine.files.limits import FileLimits
from surefind.engine.files.readers import Readers

_PIECE = 1 << 20
"""Bytes unpacked at a time."""
LOOKS_RESTRICTED = "looks restricted"
"""How the reason begins why a document is left to the owner."""
_MAX_SHOWN_CHARS = 100
"""Characters of a line that a message shows."""


class OverLimitError(SourceError):
    """An archive exceeds a limit. The whole archive is refused, not only one member."""


@dataclass
class Scope:
    """The state of reading one file and everything inside it."""

    limits: FileLimits = field(default_factory=FileLimits)
    readers: Readers = field(default_factory=Readers)
    complaints: list[tuple[str, str]] = field(default_factory=list)
    """(path of the member inside the file, or empty for the file itself; reason)"""
    alive: Callable[[], None] = lambda: None
    """Restarts the time limit of the file."""
    unpacked: int = 0
    """Bytes unpacked so far, at all levels of nesting."""
    members: int = 0
    """Files found inside the file so far, at all levels of nesting."""
    trail: tuple[str, ...] = ()
    """The names of the members being read, from the outermost to the innermost."""

    def unpack(self, size: int) -> None:
        """Counts unpacked bytes. Raises `OverLimitError` if there are too many."""
        self.unpacked += size
        if self.unpacked > self.limits.unpacked_mb * 1e6:
            raise OverLimitError(f"unpacks to more than {self.limits.unpacked_mb:g} MB (max_unpacked_mb)")

    def enter(self) -> None:
        """Counts a member. Raises `OverLimitError` if there are too many, or they are nested too deeply."""
        self.members += 1
        if self.members > self.limits.members:
            raise OverLimitError(f"holds more than {self.limits.members:,} files (max_members)")
        if len(self.trail) > self.limits.nesting:
            raise OverLimitError(f"nests archives more than {self.limits.nesting} deep (max_nesting)")


_SCOPE: ContextVar[Scope | None] = ContextVar("scope", default=None)


@contextlib.contextmanager
def reading(limits: FileLimits, readers: Readers, alive: Callable[[], None] = lambda: None) -> Iterator[Scope]:
    """Makes a new scope the current one for the block."""
    scope = Scope(limits, readers, alive=alive)
    token = _SCOPE.set(scope)
    try:
        yield scope
    finally:
        _SCOPE.reset(token)


def scope() -> Scope:
    """Returns the scope of the file being read, or a new one if a reader is called on its own."""
    return _SCOPE.get() or Scope()


def complain(reason: str, inside: str = "") -> None:
    """Records a part of the file that could not be read. The rest of the file is indexed."""
    here = scope()
    here.complaints.append(("/".join((*here.trail, *([inside] if inside else []))), reason))


def owner_only(document: str, why: str, where: str = "", advice: str = BY_PATH) -> tuple[str, ...]:
    """Returns the access list of a document that looks restricted and has no list that can be read: only the owner may
    read it. Records why, and `where` in the file."""
    complain(f"{LOOKS_RESTRICTED}: {why}. Only the owner may read {document}; {advice}", where)
    return (EVERYTHING,)


def owner_if_alike(document: str, text: str, advice: str = BY_PATH, read: int = 0) -> tuple[str, ...]:
    """Returns the access list of a document whose file has this text: the owner alone if a line of its head looks like
    one, else no groups, because nobody decided. `read` is as in `access_line`."""
    line = access_line(text, read)
    return owner_only(document, f"line {line[0]} is {line[1][:_MAX_SHOWN_CHARS]!r}", advice=advice) if line else ()


def guarded(document: Document, where: str = "", advice: str = BY_PATH) -> Document:
    """Leaves a document without an access list to the owner if its text begins with what looks like one."""
    line = None if document.acl else access_line(document.text)
    if line is None:
        return document
    why = f"line {line[0]} of its text is {line[1][:_MAX_SHOWN_CHARS]!r}"
    return replace(document, acl=owner_only(document.id, why, where, advice))


def read_checked(reader: Reader, path: Path, document_id: str) -> Iterator[Document]:
    """Reads the documents of a file. One that begins with an access list that its reader did not understand is left to
    the owner. Readers with `checks_access` have looked at the file themselves."""
    for document in reader.read(path, document_id):
        yield document if declared(reader).checks_access else guarded(document)


def still_working() -> None:
    """Restarts the time limit. For slow work in a known number of steps, such as recognising the pages of a scan."""
    scope().alive()


def read_inside(name: str, content: IO[bytes], document_id: str) -> Iterable[Document]:
    """Reads the documents of a file inside the current one. If it cannot be read, records a complaint and returns no
    documents."""
    with reading_on(name) as here:
        reader = here.readers.find(name)
        if reader is None:
            return []
        with tempfile.TemporaryDirectory(prefix="surefind-") as folder:
            try:
                return list(
                    read_checked(reader, _copied(content, Path(folder) / PurePosixPath(name).name, here), document_id)
                )
            except OverLimitError:
                raise
            except (SurefindError, OSError) as error:
                complain(str(error))
            except Exception as error:  # an unexpected error in a library fails this member, not the archive
                complain(f"cannot be read ({type(error).__name__}: {error})")
    return []


@contextlib.contextmanager
def reading_on(name: str) -> Iterator[Scope]:
    """Goes one level of nesting deeper for the block, in the current scope or a new one."""
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
    """Writes the content to disk and counts its bytes, because the sizes an archive declares cannot be trusted."""
    size = 0
    with path.open("wb") as file:
        while piece := content.read(_PIECE):
            here.unpack(len(piece))
            size += len(piece)
            if size > here.limits.file_mb * 1e6:
                raise SourceError(f"is larger than {here.limits.file_mb:g} MB (max_file_mb)")
            file.write(piece)
    return path
