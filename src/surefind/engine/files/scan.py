"""Finds the files of a source, with one `stat` per file and without opening any."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from surefind.base.disk.wildcards import Wildcards
from surefind.base.errors import UsageError
from surefind.engine.files.opening import kind_of

IGNORED = frozenset({"node_modules", "__pycache__", "venv"})
"""Folders of tools, which hold no documents."""
_MACHINE_MADE = ("package-lock.json", ".min.js", ".min.css", ".map")
_BEIR = "corpus.jsonl"
_BESIDE_BEIR = frozenset({"queries.jsonl", "qrels", "spans.jsonl"})
"""The questions and answers next to a BEIR corpus. They are for measuring, so they are not indexed."""
FollowLinks = Literal["never", "inside", "anywhere"]


class FileEntry(NamedTuple):
    """A file that a scan found. A named tuple, because there is one for each file."""

    name: str
    """The path of the file."""
    relative: str
    """The path inside the source, with `/`."""
    size: int
    mtime_ns: int
    real: str
    """The real path of the file. It differs from `path` only if a link is on the way."""

    @property
    def path(self) -> Path:
        """The path of the file. Made when it is used: most files of a scan have not changed, and are not opened."""
        return Path(self.name)


@dataclass(frozen=True)
class FileRules:
    """Which files of a source are read, as set in `[sync]` of surefind.toml."""

    exclude: Sequence[str] = ()
    """Patterns of paths inside the source, such as `drafts/**`, as in access rules."""
    follow_links: FollowLinks = "inside"

    def __post_init__(self) -> None:
        for pattern in self.exclude:
            if pattern != "**" and "/" not in pattern and {"*", "?"} & set(pattern):
                where = f"{'**/' + pattern!r} for every folder, or {'/' + pattern!r} for the top folder alone"
                raise UsageError(f"{pattern!r} does not say which folders. Write {where}.")

    @cached_property
    def _patterns(self) -> list[Wildcards]:
        return [Wildcards(pattern.removeprefix("./").strip("/")) for pattern in self.exclude]

    def excludes(self, relative: str) -> bool:
        """Returns whether a pattern matches the path, or a folder above it."""
        return bool(self.exclude) and any(pattern.cover(relative) for pattern in self._patterns)


@dataclass
class Missed:
    """The files, folders and links that a scan found but did not return."""

    unreadable: list[str] = field(default_factory=list)
    """Files and folders that cannot be opened. Their contents are unknown, so they do not count as deleted."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """(path inside the source, reason) of special files and of links that were not followed."""
    aliases: int = 0
    """The number of links to files and folders that are read under another name."""
    reached: list[str] = field(default_factory=list)
    """Files and folders outside the source that links led to."""


def scan(
    root: Path,
    rules: FileRules | None = None,
    takes: Callable[[str], object] = lambda name: True,
    missed: Missed | None = None,
    elsewhere: Set[str] = frozenset(),
    below: str = "",
) -> Iterator[FileEntry]:
    """Yields every file below `root` once, except hidden files, tool folders and machine-made files.

    `takes` tells whether a file name has a reader. `elsewhere` holds the real paths that other sources read. What the
    scan did not return is added to `missed`. With `below`, only the file or folder with this path inside the source is
    wanted; others may be returned as well.
    """
    missed, rules = missed or Missed(), rules or FileRules()
    if root.is_file():
        yield _entry(str(root), root.name, root.stat(), os.path.realpath(root))
        return
    part = Missed()
    entries = _Scan(root, rules, takes, part, elsewhere).part(below) if below else None
    if entries is None:
        yield from _Scan(root, rules, takes, missed, elsewhere).files()
        return
    missed.unreadable += part.unreadable
    missed.skipped += part.skipped
    yield from entries


@dataclass(frozen=True)
class Scanned:
    """The files that a scan of a source found, and what it left out."""

    entries: list[FileEntry]
    missed: Missed

    @classmethod
    def of(
        cls,
        root: Path,
        rules: FileRules,
        takes: Callable[[str], object],
        elsewhere: Set[str] = frozenset(),
        below: str = "",
    ) -> Scanned:
        missed = Missed()
        return cls(list(scan(root, rules, takes, missed, elsewhere, below)), missed)


class _Scan:
    """One scan. It follows links only after it has seen all files that are not links, so that a file is read under its
    own name even if links lead to it. Files and folders are identified by their real paths, because some file systems
    use an inode number twice."""

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
        """Real paths of the files that are read under the name of a link."""
        self.links: list[tuple[str, str]] = []
        """(path, path inside the source) of the links that were not followed yet."""

    def files(self) -> Iterator[FileEntry]:
        yield from self._walk(str(self.root), "", self.real)
        while self.links:  # a folder behind a link may hold links
            waiting, self.links = self.links, []
            for path, relative in waiting:
                yield from self._behind(path, relative)

    def part(self, below: str) -> list[FileEntry] | None:
        """Returns the files of a part of the source without looking at the rest; None if that is not possible: if there
        are links, it depends on the rest under which name a file is read."""
        path, real = os.path.join(self.root, below), os.path.join(self.real, below)  # noqa: PTH118
        above = [os.path.join(self.real, str(step)) for step in PurePosixPath(below).parents]  # noqa: PTH118
        if os.path.realpath(path) != real or not self.elsewhere.isdisjoint([real, *above]):
            return None
        if is_ignored(below, self.rules) or self._is_beside_beir(below):
            return []
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError:
            return None
        if stat.S_ISREG(status.st_mode):
            return [_entry(path, below, status, real)]
        entries = list(self._walk(path, below + "/", real))
        return None if self.links else entries

    def _is_beside_beir(self, relative: str) -> bool:
        """Whether the path is, or is below, a file or folder with the questions of a BEIR corpus."""
        steps = (PurePosixPath(relative), *PurePosixPath(relative).parents)
        return any(step.name in _BESIDE_BEIR and (self.root / step.parent / _BEIR).exists() for step in steps)

    def _walk(self, top: str, prefix: str, real: str) -> Iterator[FileEntry]:
        """Yields the files below a folder, in the order of their names."""
        seen, elsewhere = self.seen, self.elsewhere
        seen.add(real)
        open_folders = [iter(self._listed(top, prefix, real))]  # no recursion: folders nest deeper than Python calls
        while open_folders:
            for entry, relative, real in open_folders[-1]:
                try:
                    if entry.is_symlink():
                        self.links.append((entry.path, relative))
                        continue
                    status = None if entry.is_dir(follow_symlinks=False) else entry.stat(follow_symlinks=False)
                except OSError:
                    self.missed.unreadable.append(relative)
                    continue
                if status and not stat.S_ISREG(status.st_mode):
                    self.missed.skipped.append((relative, f"is {kind_of(status.st_mode)}, not a file"))
                elif real not in seen and real not in elsewhere:
                    seen.add(real)
                    if status:
                        yield FileEntry(entry.path, relative, status.st_size, status.st_mtime_ns, real)
                    else:
                        open_folders.append(iter(self._listed(entry.path, relative + "/", real)))
                        break
            else:
                open_folders.pop()

    def _listed(self, folder: str, prefix: str, real: str) -> list[tuple[os.DirEntry[str], str, str]]:
        """Returns the entries of a folder that are not ignored, each with its path inside the source and real path."""
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=attrgetter("name"))
        except OSError:
            self.missed.unreadable.append(prefix.rstrip("/"))
            return []
        base = os.path.join(real, "")  # noqa: PTH118
        ignored = _BESIDE_BEIR if any(entry.name == _BEIR for entry in entries) else frozenset()
        excludes = bool(self.rules.exclude)
        return [
            (entry, prefix + name, base + name)
            for entry in entries
            for name in [entry.name]
            if not (_is_tools(name) or name in ignored or (excludes and self.rules.excludes(prefix + name)))
        ]

    def _behind(self, path: str, relative: str) -> Iterator[FileEntry]:
        """Yields the files that a link leads to, or records why it is not followed."""
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
                yield _entry(path, relative, status, real)

    def _refused(self, real: str, mode: int) -> str:
        """The reason why a link to `real` is not followed; empty if it is followed."""
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            return f"which is {kind_of(mode)}, not a file"
        if self._is_inside(real) and self.rules.excludes(self._shown(real)):  # a link does not get around a pattern
            return "which is excluded"
        if self.rules.follow_links == "anywhere":
            return ""
        if not self._is_inside(real):
            return 'outside the source folder; to read it, set follow_links = "anywhere"'
        if real not in self.seen:
            return 'which is ignored under its own name; to read it, set follow_links = "anywhere"'
        if self.rules.follow_links == "never":
            return 'which has no reader under its own name; to read it, set follow_links = "inside"'
        return ""

    def _is_read(self, real: str, is_folder: bool) -> bool:
        """Whether the target of a link is read anyway: under its own name, by another link, or by another source."""
        if any(str(step) in self.elsewhere for step in (PurePosixPath(real), *PurePosixPath(real).parents)):
            return True
        return real in self.linked or (real in self.seen and (is_folder or bool(self.takes(real))))

    def _is_inside(self, real: str) -> bool:
        return real == self.real or real.startswith(os.path.join(self.real, ""))  # noqa: PTH118

    def _shown(self, real: str) -> str:
        """The path relative to the source if it is inside the source, else the whole path."""
        return os.path.relpath(real, self.real) if self._is_inside(real) else real

    def _broken(self, path: str, relative: str, error: OSError) -> None:
        if error.errno == errno.ELOOP:
            self.missed.skipped.append((relative, "is a link that leads back to itself"))
        elif isinstance(error, FileNotFoundError | NotADirectoryError):
            self.missed.skipped.append((relative, f"is a link to {_target(path)}, which does not exist"))
        else:
            self.missed.unreadable.append(relative)


def is_ignored(relative: str, rules: FileRules) -> bool:
    """Whether a scan ignores the path, because of its own name or the name of a folder above it."""
    return rules.excludes(relative) or any(map(_is_tools, PurePosixPath(relative).parts))


def _is_tools(name: str) -> bool:
    """Whether a name is hidden, or that of a file or folder which a tool made."""
    return name.startswith(".") or name in IGNORED or name.endswith(_MACHINE_MADE)


def _target(link: str) -> str:
    """The target as the link states it."""
    try:
        return str(Path(link).readlink())
    except OSError:
        return "a file"


def _entry(path: str, relative: str, status: os.stat_result, real: str) -> FileEntry:
    return FileEntry(path, relative, status.st_size, status.st_mtime_ns, real)
