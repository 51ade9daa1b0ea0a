"""What the catalogue says of sources, files, and files that could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
    """The document rows that came out of it."""


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
