"""The version of a file on disk. Data read from a file stays valid as long as its version is the same."""

from __future__ import annotations

from pathlib import Path

FileVersion = tuple[int, int, int]
"""(inode, modification time in ns, size)."""


def file_version(path: Path) -> FileVersion:
    """Returns the version of a file. It contains the inode, so that it also differs when another file was moved into
    its place within one tick of the clock."""
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
