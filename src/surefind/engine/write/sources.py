"""Finds the folders and repositories to sync: those that were named, or all known ones."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from surefind.base.errors import MissingPartError, SourceError
from surefind.base.protocols import OnProgress
from surefind.engine.files.git import GitOrigin, fetch
from surefind.engine.files.opening import kind_of
from surefind.engine.files.scan import FileRules, Missed, scan
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.rows import Source
from surefind.engine.write.intake import type_of
from surefind.engine.write.reading import FilePreparer

_MAX_LISTED = 10


@dataclass(frozen=True)
class Sources:
    """The sources of a knowledge base, for one sync."""

    catalogue: Catalogue
    reading: FilePreparer
    base: int
    """The number of the current set of documents; the sync writes the next one."""
    files: FileRules = field(default_factory=FileRules)
    report: OnProgress = lambda what, done, total: None

    def targets(self, paths: Sequence[Path], dropped: list[Source]) -> list[tuple[Source, str]]:
        """Returns the sources to sync, each with the path of the part to sync (empty for all of it). Without `paths`,
        returns all sources.

        Every path is checked before anything is written. A path inside another one is part of it. Sources inside a new
        source are removed and added to `dropped`.
        """
        if not paths:
            for source in self.catalogue.sources():
                if not source.root.exists() and not source.origin:
                    raise SourceError(
                        f"The source {source.root} no longer exists. Restore it, or remove its documents with: "
                        f"surefind sync --forget {source.root}."
                    )
            return [(source, "") for source in self.catalogue.sources()]
        wanted = list(dict.fromkeys(path.resolve() for path in paths))
        for path in wanted:
            if not path.exists():
                raise SourceError(f"There is no file or folder {path}. Check the path; nothing was changed.")
            if not path.is_dir() and not path.is_file():
                kind = kind_of(path.stat().st_mode)
                raise SourceError(f"{path} is {kind}, not a file or folder; nothing was changed.")
        wanted = [path for path in wanted if not any(other in path.parents for other in wanted)]
        for path in wanted:
            if not any(source.root.resolve() in (path, *path.parents) for source in self.catalogue.sources()):
                self._check_not_empty(path)
        return [self._target(path, dropped) for path in wanted]

    def _target(self, path: Path, dropped: list[Source]) -> tuple[Source, str]:
        for source in self.catalogue.sources():
            root = source.root.resolve()  # a folder above may have become a link since the source was added
            if root in (path, *path.parents):
                return source, "" if path == root else path.relative_to(root).as_posix()
        for source in self.catalogue.sources():
            if path in source.root.resolve().parents and not source.origin:  # the new source contains it
                self.remove_documents(source)
                dropped.append(source)
        return self.catalogue.add_source(path), ""

    def _check_not_empty(self, path: Path) -> None:
        """Raises `SourceError` unless there is a file with a reader below the path."""
        seen: Counter[str] = Counter()
        missed = Missed()
        for entry in scan(path, self.files, self.reading.find, missed):
            if self.reading.find(entry.relative):
                return
            seen[type_of(entry.relative)] += 1
        held = f"its {sum(seen.values())} files are {listing(seen)}" if seen else "it holds no files"
        if missed.skipped:
            held += "; skipped: " + "; ".join(f"{name} {reason}" for name, reason in missed.skipped[:_MAX_LISTED])
        raise SourceError(
            f"There is nothing to index in {path}: {held}. Known types: {', '.join(self.reading.readers.suffixes())}."
        )

    def read_elsewhere(self, source: Source, dropped: Sequence[Source]) -> set[str]:
        """Returns the real paths that other sources read: their own folders, and the paths that earlier sources reach
        by links. Empty unless `follow_links = "anywhere"`: only then can a link lead to another source."""
        if self.files.follow_links != "anywhere":
            return set()
        gone = {dropped_source.id for dropped_source in dropped} - {source.id}
        sources = [known_source for known_source in self.catalogue.sources() if known_source.id not in gone]
        roots = {known_source.id: os.path.realpath(known_source.root) for known_source in sources}
        taken = set(roots.values())
        for earlier in takewhile(lambda known_source: known_source.id != source.id, sources):
            missed = Missed()
            others = taken - {roots[earlier.id]}
            deque(scan(earlier.root, self.files, self.reading.find, missed, others), maxlen=0)
            taken.update(missed.reached)
        return taken - {roots[source.id]}

    def forgotten(self, roots: Sequence[Path | GitOrigin]) -> list[Source]:
        """Returns the sources to forget. Raises `SourceError` if a root is not a source."""
        known = {_location(source): source for source in self.catalogue.sources()}
        wanted = {root: root.url if isinstance(root, GitOrigin) else str(root.resolve()) for root in roots}
        for root, location in wanted.items():
            if location not in known:
                listed = ", ".join(known) or "none"
                raise SourceError(f"{root} is not a source of this knowledge base. Sources: {listed}.")
        return [known[location] for location in wanted.values()]

    def fetched(self, origin: GitOrigin) -> Source:
        """Fetches a repository at the origin's revision and returns the source that holds its files."""
        known = next((s for s in self.catalogue.sources() if _location(s) == origin.url), None)
        folder = known.root.parent if known else self.catalogue.path.parent.resolve() / "git" / origin.key
        self.report(f"Fetching {origin.name}", 0, 1)
        rules = f"{self.reading.limits.file_mb:g} MB of {' '.join(self.reading.readers.suffixes())}"
        have = known.revision if known else ""
        commit = fetch(origin, folder, have, self._wants, rules, self.reading.limits)
        self.report(f"Fetching {origin.name}", 1, 1)
        source = known or self.catalogue.add_source(folder / "tree", origin.name, str(origin))
        self.catalogue.set_revision(source, str(origin), commit)
        return source

    def fetched_again(self, source: Source) -> str:
        """Fetches a source again if it has an origin. Returns the reason if this fails, else an empty string. After a
        failure the files fetched earlier are kept."""
        if not source.origin:
            return ""
        try:
            self.fetched(GitOrigin.parse(source.origin))
        except (SourceError, MissingPartError) as error:
            return f"cannot be fetched ({error}); the files of commit {source.revision[:12]} are kept"
        return ""

    def _wants(self, path: str, size: int) -> bool:
        return self.reading.find(path) is not None and size <= self.reading.limits.file_mb * 1e6

    def remove_documents(self, source: Source) -> int:
        """Removes a source's documents from the next set, and returns their number."""
        rows = [row for file in self.catalogue.files(source, self.base).values() for row in file.rows]
        self.catalogue.versions.release(rows, self.base + 1)
        return len(rows)


def _location(source: Source) -> str:
    """The folder of a source, or the URL of its repository without the revision. No two sources share one."""
    return GitOrigin.parse(source.origin).url if source.origin else str(source.root.resolve())


def listing(counts: Counter[str]) -> str:
    """Lists types of files with their counts, the most frequent first: `.png ×7, .exe ×2`."""
    return ", ".join(f"{suffix} ×{count}" for suffix, count in counts.most_common())
