"""Finding the files of a source, cheaply: one `stat` each, nothing opened."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

IGNORED = frozenset({"node_modules", "__pycache__", "venv"})


@dataclass(frozen=True, slots=True)
class FileEntry:
    path: Path
    relative: str
    """Path below the source, with `/`."""
    size: int
    mtime_ns: int


def scan(root: Path, exclude: Sequence[str] = (), unreadable: list[str] | None = None) -> Iterator[FileEntry]:
    """Every file below `root`, in order of name; hidden names and tool folders are passed over.

    Links to folders are followed once: a loop of links ends where it meets itself. Folders that cannot be opened
    are added to `unreadable`: what is in them is unknown, not gone.
    """
    if root.is_file():
        yield _entry(root, root.name, root.stat())
        return
    yield from _scan_folder(root, "", exclude, {_identity(root.stat())}, [] if unreadable is None else unreadable)


def _scan_folder(
    folder: Path, prefix: str, exclude: Sequence[str], above: set[tuple[int, int]], unreadable: list[str]
) -> Iterator[FileEntry]:
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError:
        unreadable.append(prefix.rstrip("/"))
        return
    for entry in entries:
        relative = prefix + entry.name
        if entry.name.startswith(".") or entry.name in IGNORED or any(fnmatch(relative, p) for p in exclude):
            continue
        try:
            stat = entry.stat()
            is_folder = entry.is_dir()
        except OSError:
            if not entry.is_symlink():  # a dangling link is no file; anything else is a file we may not look at
                unreadable.append(relative)
            continue
        if not is_folder:
            if entry.is_file():
                yield _entry(Path(entry.path), relative, stat)
        elif _identity(stat) not in above:
            yield from _scan_folder(Path(entry.path), relative + "/", exclude, above | {_identity(stat)}, unreadable)


def _entry(path: Path, relative: str, stat: os.stat_result) -> FileEntry:
    return FileEntry(path, relative, stat.st_size, stat.st_mtime_ns)


def _identity(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino
