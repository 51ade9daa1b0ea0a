"""Finding the files of a source, cheaply: one `stat` each, nothing opened."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

IGNORED = frozenset({"node_modules", "__pycache__", "venv"})
_MACHINE_MADE = ("package-lock.json", ".min.js", ".min.css", ".map")
_BEIR = "corpus.jsonl"
_BESIDE_BEIR = frozenset({"queries.jsonl", "qrels", "spans.jsonl"})
"""Beside a BEIR corpus: the questions and their answers, which are for measuring and not for finding."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    path: Path
    relative: str
    """Path below the source, with `/`."""
    size: int
    mtime_ns: int


def scan(root: Path, exclude: Sequence[str] = (), unreadable: list[str] | None = None) -> Iterator[FileEntry]:
    """Every file below `root`; hidden names, tool folders and machine-made files are passed over.

    Each folder is visited once, under its own name before that of a link to it, so links can neither loop nor multiply.
    Folders that cannot be opened are added to `unreadable`: what is in them is unknown, not gone.
    """
    if root.is_file():
        yield _entry(root, root.name, root.stat())
        return
    missed = [] if unreadable is None else unreadable
    seen = {_identity(root.stat())}
    waiting = [(root, "")]
    while waiting:
        links: list[tuple[Path, str]] = []
        for folder, prefix in waiting:
            yield from _walk(folder, prefix, exclude, seen, links, missed)
        waiting = [(path, prefix) for path, prefix in links if _is_new(path, seen)]


def _walk(
    top: Path,
    prefix: str,
    exclude: Sequence[str],
    seen: set[tuple[int, int]],
    links: list[tuple[Path, str]],
    unreadable: list[str],
) -> Iterator[FileEntry]:
    """In order of name. Links to folders are put off until every folder proper was seen."""
    open_folders = [_listed(top, prefix, exclude, unreadable)]  # no recursion: folders nest deeper than Python calls
    while open_folders:
        entry, relative = next(open_folders[-1], (None, ""))
        if entry is None:
            open_folders.pop()
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
        elif entry.is_symlink():
            links.append((Path(entry.path), relative + "/"))
        else:
            seen.add(_identity(stat))
            open_folders.append(_listed(Path(entry.path), relative + "/", exclude, unreadable))


def _listed(
    folder: Path, prefix: str, exclude: Sequence[str], unreadable: list[str]
) -> Iterator[tuple[os.DirEntry[str], str]]:
    """The entries of a folder that are not passed over, each with its path below the source."""
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError:
        unreadable.append(prefix.rstrip("/"))
        return
    passed = _BESIDE_BEIR if any(entry.name == _BEIR for entry in entries) else frozenset()
    for entry in entries:
        relative = prefix + entry.name
        if entry.name not in passed and not _is_passed_over(entry.name, relative, exclude):
            yield entry, relative


def _is_passed_over(name: str, relative: str, exclude: Sequence[str]) -> bool:
    if name.startswith(".") or name in IGNORED or name.endswith(_MACHINE_MADE):
        return True
    return any(fnmatch(relative, pattern) for pattern in exclude)


def _is_new(folder: Path, seen: set[tuple[int, int]]) -> bool:
    """Whether a link leads to a folder that was not visited; it counts as visited from here on."""
    found = _identity(folder.stat())
    if found in seen:
        return False
    seen.add(found)
    return True


def _entry(path: Path, relative: str, stat: os.stat_result) -> FileEntry:
    return FileEntry(path, relative, stat.st_size, stat.st_mtime_ns)


def _identity(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino
