"""The version of a file on disk. Data read from a file stays valid as long as its version is the same."""

from __future__ import annotations

import contextlib
from pathlib import Path

from surefind.base.errors import SpecError, choices

FileVersion = tuple[int, int, int]
"""(inode, modification time in ns, size)."""


def file_version(path: Path) -> FileVersion:
    """Returns the version of a file. It contains the inode, so that it also differs when another file was moved into
    its place within one tick of the clock."""
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def find_named(folder: Path | None, name: str, file: str, what: str, advice: str) -> tuple[Path, FileVersion]:
    """Returns the `file` of what was trained or calibrated under a name, and its version. Raises `SpecError` with the
    names that exist, or with `advice` if there are none. Hidden folders are being written."""
    if folder is not None and name and Path(name).name == name and not name.startswith("."):
        path = folder / name / file
        with contextlib.suppress(FileNotFoundError):
            return path, file_version(path)
    there = sorted(path.parent.name for path in folder.glob(f"[!.]*/{file}")) if folder else []
    raise SpecError(f"There is no {what} {name!r}. {choices(name, there) if there else advice}")
