"""What the catalogue says of sources, files, versions, generations, and files that could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from surefind.types import Place

State = Literal["draft", "in review", "published", "retired"]


@dataclass(frozen=True, slots=True)
class Source:
    id: int
    root: Path
    name: str
    origin: str = ""
    """Where its files are fetched from, such as `git+https://host/repository@main`; empty for a plain folder."""
    revision: str = ""
    """What was fetched from the origin: a commit."""


@dataclass(frozen=True, slots=True)
class FileRow:
    """What is known of a file without reading it again."""

    path: str
    size: int
    mtime_ns: int
    seen_ns: int
    sha256: str
    reader: str
    """The spec of the reader that read it; empty if that was not noted."""
    rows: tuple[int, ...]
    """The versions that came out of it."""


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """A file, or something inside one, that could not be read."""

    path: str
    """What is shown: the file, or the file and its member."""
    reason: str
    file: str
    size: int = -1
    """Size, times and reader are those of the attempt: while they stay, there is no use in another. -1: try again."""
    mtime_ns: int = 0
    seen_ns: int = 0
    reader: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A version as a set of documents holds it: all that a backend needs to know of it beside its chunks."""

    version: int
    document: str
    content: str
    """The hash of what the document says."""
    path: str
    metadata: str
    """JSON, as stored."""
    acl: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a document in its history."""

    number: int
    document: str
    title: str
    state: State
    author: str
    created: str
    length: int
    """Characters of its text."""
    generations: tuple[int, ...]
    """The kept generations that hold it."""


@dataclass(frozen=True, slots=True)
class Generation:
    number: int
    created: str
    documents: int
    contents: int
    """The number of the set of documents that it shows: two generations may show the same."""
    author: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A chunk as it is stored, with what is said of its document."""

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
    """Where the parts of its document stand in the source."""
