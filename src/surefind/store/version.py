"""Which version of a file lies there now: what was read from it is good for as long as this stays the same."""

from __future__ import annotations

from pathlib import Path

FileVersion = tuple[int, int, int]


def file_version(path: Path) -> FileVersion:
    """Another one for a file that was moved into its place, even within one tick of the clock."""
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
