"""Finding the files of a source, cheaply: one `stat` each, nothing opened."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Literal

from surefind.files.opening import kind_of

IGNORED = frozenset({"node_modules", "__pycache__", "venv"})
_MACHINE_MADE = ("package-lock.json", ".min.js", ".min.css", ".map")
_BEIR = "corpus.jsonl"
_BESIDE_BEIR = frozenset({"queries.jsonl", "qrels", "spans.jsonl"})
"""Beside a BEIR corpus: the questions and their answers, which are for measuring and not for finding."""
FollowLinks = Literal["never", "inside", "anywhere"]


@dataclass(frozen=True, slots=True)
class FileEntry:
    path: Path
    relative: str
    """Path below the source, with `/`."""
    size: int
    mtime_ns: int
    real: str
    """Where `path` leads: another path only where a link is on the way."""


@dataclass(frozen=True)
class FileRules:
    """Which files of a source are read, as `[sync]` of surefind.toml says."""

    exclude: Sequence[str] = ()
    follow_links: FollowLinks = "inside"


@dataclass
class Missed:
    """What a scan came across and did not give."""

    unreadable: list[str] = field(default_factory=list)
    """Files and folders that cannot be opened: what is in them is unknown, not gone."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Links that were not followed and special files: path below the source, reason."""
    aliases: int = 0
    """Links to what is read under another name."""
    reached: list[str] = field(default_factory=list)
    """Files and folders outside the source that links led to."""


def scan(
    root: Path,
    rules: FileRules | None = None,
    takes: Callable[[str], object] = lambda name: True,
    missed: Missed | None = None,
    elsewhere: Set[str] = frozenset(),
) -> Iterator[FileEntry]:
    """Every file below `root`, each once; hidden names, tool folders and machine-made files are ignored.

    `takes` says whether a reader takes a name, `elsewhere` holds real paths that other sources read.
    """
    if root.is_file():
        yield _entry(root, root.name, root.stat(), os.path.realpath(root))
        return
    yield from _Scan(root, rules or FileRules(), takes, missed or Missed(), elsewhere).files()


class _Scan:
    """Links are put off until every file with a name of its own was seen, so that a file that has both is read under
    its own. Files and folders are told apart by their real paths: some file systems give out an inode number twice."""

    def __init__(
        self, root: Path, rules: FileRules, takes: Callable[[str], object], missed: Missed, elsewhere: Set[str]
    ) -> None:
        self.root = root
        self.real = os.path.realpath(root)
        self.rules = rules
        self.takes = takes
        self.missed = missed
        self.elsewhere = elsewhere
        self.seen: set[str] = set()
        self.linked: set[str] = set()
        """Files that are read under the name of a link."""
        self.links: list[tuple[str, str]] = []
        """Path and path below the source of links that were not looked at yet."""

    def files(self) -> Iterator[FileEntry]:
        yield from self._walk(str(self.root), "", self.real)
        while self.links:  # a folder behind a link may hold links
            waiting, self.links = self.links, []
            for path, relative in waiting:
                yield from self._behind(path, relative)

    def _walk(self, top: str, prefix: str, real: str) -> Iterator[FileEntry]:
        """In order of name."""
        self.seen.add(real)
        open_folders = [self._listed(top, prefix, real)]  # no recursion: folders nest deeper than Python calls
        while open_folders:
            found = next(open_folders[-1], None)
            if found is None:
                open_folders.pop()
                continue
            entry, relative, real = found
            try:
                if entry.is_symlink():
                    self.links.append((entry.path, relative))
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                status = None if is_folder else entry.stat(follow_symlinks=False)
            except OSError:
                self.missed.unreadable.append(relative)
                continue
            if status and not stat.S_ISREG(status.st_mode):
                self.missed.skipped.append((relative, f"is {kind_of(status.st_mode)}, not a file"))
            elif real not in self.seen and real not in self.elsewhere:
                self.seen.add(real)
                if status:
                    yield _entry(Path(entry.path), relative, status, real)
                else:
                    open_folders.append(self._listed(entry.path, relative + "/", real))

    def _listed(self, folder: str, prefix: str, real: str) -> Iterator[tuple[os.DirEntry[str], str, str]]:
        """The entries of a folder that are not ignored, each with its path below the source and its real path."""
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            self.missed.unreadable.append(prefix.rstrip("/"))
            return
        base = os.path.join(real, "")  # noqa: PTH118
        ignored = _BESIDE_BEIR if any(entry.name == _BEIR for entry in entries) else frozenset()
        for entry in entries:
            relative = prefix + entry.name
            if entry.name not in ignored and not _is_ignored(entry.name, relative, self.rules.exclude):
                yield entry, relative, base + entry.name

    def _behind(self, path: str, relative: str) -> Iterator[FileEntry]:
        """The files that a link leads to, or a note on why it is not followed."""
        try:
            real = os.path.realpath(path, strict=True)
            status = os.stat(real)  # noqa: PTH116
        except OSError as error:
            self._broken(path, relative, error)
            return
        is_folder = stat.S_ISDIR(status.st_mode)
        if self._is_read(real, is_folder):
            self.missed.aliases += 1
        elif reason := self._refused(real, status.st_mode):
            self.missed.skipped.append((relative, f"is a link to {self._shown(real)}, {reason}"))
        else:
            if not self._is_inside(real):
                self.missed.reached.append(real)
            if is_folder:
                yield from self._walk(path, relative + "/", real)
            else:
                if self.takes(relative):
                    self.linked.add(real)
                    self.seen.add(real)
                yield _entry(Path(path), relative, status, real)

    def _refused(self, real: str, mode: int) -> str:
        """Why a link to `real` is not followed; empty where it is."""
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            return f"which is {kind_of(mode)}, not a file"
        if self._is_inside(real) and self._is_excluded(self._shown(real)):
            return "which is excluded"
        if self.rules.follow_links == "anywhere":
            return ""
        if not self._is_inside(real):
            return 'outside the source folder; follow_links = "anywhere" reads it'
        if real not in self.seen:
            return 'which is ignored under its own name; follow_links = "anywhere" reads it'
        if self.rules.follow_links == "never":
            return 'which no reader takes under its own name; follow_links = "inside" reads it'
        return ""

    def _is_excluded(self, relative: str) -> bool:
        """By its own path or that of a folder above it: a link is no way around a pattern."""
        steps = (PurePosixPath(relative), *PurePosixPath(relative).parents)
        return any(fnmatch(str(step), pattern) for step in steps for pattern in self.rules.exclude)

    def _is_read(self, real: str, is_folder: bool) -> bool:
        """Whether what a link leads to is read without it: under its own name, another link's, or by another source."""
        if any(str(step) in self.elsewhere for step in (PurePosixPath(real), *PurePosixPath(real).parents)):
            return True
        return real in self.linked or (real in self.seen and (is_folder or bool(self.takes(real))))

    def _is_inside(self, real: str) -> bool:
        return real == self.real or real.startswith(os.path.join(self.real, ""))  # noqa: PTH118

    def _shown(self, real: str) -> str:
        """Below the source, where it is there."""
        return os.path.relpath(real, self.real) if self._is_inside(real) else real

    def _broken(self, path: str, relative: str, error: OSError) -> None:
        if error.errno == errno.ELOOP:
            self.missed.skipped.append((relative, "is a link that leads back to itself"))
        elif isinstance(error, FileNotFoundError | NotADirectoryError):
            self.missed.skipped.append((relative, f"is a link to {_target(path)}, which does not exist"))
        else:
            self.missed.unreadable.append(relative)


def is_ignored(relative: str, exclude: Sequence[str]) -> bool:
    """Whether a scan would not come across the path: for its own name, or that of a folder above it."""
    path = PurePosixPath(relative)
    return any(_is_ignored(step.name, str(step), exclude) for step in (path, *path.parents[:-1]))


def _is_ignored(name: str, relative: str, exclude: Sequence[str]) -> bool:
    if name.startswith(".") or name in IGNORED or name.endswith(_MACHINE_MADE):
        return True
    return any(fnmatch(relative, pattern) for pattern in exclude)


def _target(link: str) -> str:
    """As the link has it."""
    try:
        return str(Path(link).readlink())
    except OSError:
        return "a file"


def _entry(path: Path, relative: str, status: os.stat_result, real: str) -> FileEntry:
    return FileEntry(path, relative, status.st_size, status.st_mtime_ns, real)
