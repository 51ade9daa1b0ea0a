"""The rows of the catalogue as values: sources, files, problems, versions, generations, chunks.

Those of which a sync makes one for each file, or a search one for each hit, are named tuples, which take a third of the
time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from surefind.base.types import Document, Place

State = Literal["published", "retired"]
"""The state of a version."""


@dataclass(frozen=True, slots=True)
class Source:
    """A folder whose files are synced."""

    id: int
    root: Path
    name: str
    origin: str = ""
    """The URL that the files are fetched from, such as `git+https://host/repository@main`; empty for a plain folder."""
    revision: str = ""
    """The commit that was fetched from the origin."""


Facts = tuple[str, int, int | None, str]
"""The path, size, modification time and reader of a file. There is one for each file, so it has no names."""


class FileRow(NamedTuple):
    """The recorded facts of a file, from which a sync sees whether it has changed."""

    path: str
    size: int
    mtime_ns: int
    seen_ns: int
    sha256: str
    reader: str
    """The spec of the reader that read the file; empty if it was not recorded."""
    version: int
    """The version that was read from the file."""
    others: tuple[int, ...] = ()
    """More versions, if the file has several documents."""

    @property
    def rows(self) -> tuple[int, ...]:
        """All versions that were read from the file."""
        return self.version, *self.others


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """A file, or a member of a file, that could not be read."""

    path: str
    """The path that is shown: the file, or the file and its member."""
    reason: str
    file: str
    size: int = -1
    """Size, times and reader are those of the attempt: while they stay the same, the file is not read again. A size of
    -1 means: try again."""
    mtime_ns: int = 0
    seen_ns: int = 0
    reader: str = ""


class Member(NamedTuple):
    """A version in a set of documents, with everything that a backend needs besides its chunks."""

    version: int
    document: str
    content: str
    """The hash of the document's content."""
    path: str
    metadata: str
    """The metadata as JSON."""
    acl: tuple[str, ...]


class NamedFile(NamedTuple):
    """A document that is published or retired, and its file."""

    document: str
    version: int
    source: int
    """The number of its source; 0 if it comes from none."""
    path: str


@dataclass(frozen=True, slots=True)
class About:
    """What a list of documents shows of a version."""

    document: str
    version: int
    title: str
    source: str
    """The name of the source; empty if the document is from none."""
    path: str
    length: int
    """The number of characters of its text."""
    created: str


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a document, as its history lists it."""

    number: int
    document: str
    title: str
    state: State
    author: str
    created: str
    length: int
    """The number of characters of its text."""
    generations: tuple[int, ...]
    """The numbers of the kept generations that hold it."""


@dataclass(frozen=True, slots=True)
class Generation:
    """A state of the knowledge base that readers see, from one commit to the next."""

    number: int
    created: str
    documents: int
    """How many documents it shows."""
    contents: int
    """The number of the set of documents that it shows. Two generations may show the same set."""
    author: str = ""
    reason: str = ""

    def is_replaced_by(self, later: Generation) -> bool:
        """Returns whether the next generation shows the same set with more indexes, as `Catalogue.show_again` adds."""
        same = (self.contents, self.reason) == (later.contents, later.reason)
        return same and not self.reason.startswith("rollback")


class ChunkEntry(NamedTuple):
    """A stored chunk, with the facts of its document."""

    document: str
    start: int
    end: int
    text: str
    headings: tuple[str, ...]
    context: str
    title: str
    metadata: dict[str, Any]
    version: int
    places: tuple[Place, ...] = ()
    """The source locations of the parts of its document."""
    source: int = 0
    """The number of the source that the document is from; 0 if it is from none."""
    path: str = ""
    lines: tuple[int, int] | None = None
    """The first and the last line of the text in the source file, if they are recorded."""


def document_of(row: Sequence[Any], text: str) -> Document:
    """Returns the document of a row of `versions`, with its text."""
    _, document_id, *_, title, markup, metadata, acl, places, _, _, _, _ = row
    return Document(
        document_id, text, title, markup, json.loads(metadata), groups_of(acl),
        tuple(Place(*place) for place in json.loads(places)) if places != "[]" else (),
    )  # fmt: skip


@lru_cache
def groups_of(acl: str) -> tuple[str, ...]:
    """Reads an access list. Many documents have the same one."""
    return tuple(json.loads(acl))
