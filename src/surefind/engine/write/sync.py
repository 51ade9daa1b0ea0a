"""Brings the knowledge base up to date with its sources: those that were named, or all known ones. Only what changed is
read, cut and embedded. Watches folders, and reports when files have changed and no further change has followed for a
moment.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from threading import Event

from surefind.base.errors import MissingPartError, SourceError
from surefind.base.protocols import OnProgress, Retriever
from surefind.engine.files.git import GitOrigin, fetch
from surefind.engine.files.opening import kind_of
from surefind.engine.files.scan import FileRules, Missed, scan
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.versions import ProblemRow, Source
from surefind.engine.write.intake import Intake, Problem, SyncReport, type_of
from surefind.engine.write.preparing import FilePreparer
from surefind.engine.write.writer import Uncut, Writer

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


def sync(
    writer: Writer,
    retrievers: Sequence[Retriever],
    paths: Sequence[Path],
    forget: Sequence[Path | GitOrigin] = (),
    origins: Sequence[GitOrigin] = (),
    first: Sequence[Retriever] = (),
) -> SyncReport:
    """Syncs the named paths and origins; without any, all sources. Drops the sources in `forget`. Builds the indexes of
    `retrievers`, asks the gate, then commits the result as the next generation. Until then no reader sees any of it.
    If the others take long, only the indexes of `first` are built, and the result `waits` for the others."""
    started = time.perf_counter()
    result = SyncReport()
    catalogue = writer.catalogue
    base = writer.begin()
    sources = Sources(catalogue, writer.reading, base, writer.files, writer.report)
    dropped = sources.forgotten(forget)
    result.removed = sum(map(sources.remove_documents, dropped))
    orphans = catalogue.versions.of_no_source(base)
    catalogue.versions.release(orphans, base + 1)
    result.removed += len(orphans)
    _take_in(writer, sources, base, paths, forget, origins, dropped, result)
    changed = result.added + result.changed + result.removed
    contents = base + 1 if changed or not catalogue.generation() else catalogue.snapshot_id()
    for uncut in writer.cut(contents, skip=True):
        result.problems.append(Problem(uncut.document, uncut.reason))
        if uncut.refused:
            _record(writer, uncut)
    is_new = contents != catalogue.snapshot_id() or not catalogue.generation()
    others = [retriever for retriever in retrievers if retriever not in first]
    asks_gate = is_new and writer.gate is not None and catalogue.generation() > 0  # the exam needs every index
    if first and others and not asks_gate:
        result.rebuilt = writer.build(contents, first)
        result.waits = writer.takes_long(contents, others)
    lacked = not is_new and bool(others and writer.lacking(contents, others))
    if not result.waits:
        result.rebuilt += writer.build(contents, retrievers)
    if lacked and not result.waits:
        writer.show_again()
    if is_new:
        writer.pass_gate(contents)
        with catalogue.transaction():
            catalogue.commit(contents, writer.author)
            for source in dropped:
                catalogue.drop_source(source)
        for source in dropped:
            if source.origin:
                shutil.rmtree(source.root.parent, ignore_errors=True)
    writer.sweep()
    current = catalogue.current()
    result.generation, result.documents = (current.number, current.documents) if current else (0, 0)
    result.chunks = writer.count(contents)
    result.seconds = time.perf_counter() - started
    return result


def _record(writer: Writer, uncut: Uncut) -> None:
    """Records that a document could not be cut in the layout of this sync. Later syncs list it, and do not try again
    until its file, its reader, the limits or the layout change."""
    source, path, size, mtime_ns, _, _, reader = writer.catalogue.versions.file_of(uncut.version)
    if not source:  # a published draft has no file that a sync looks at
        return
    attempt = writer.reading.attempt(reader, str(writer.layout))
    row = ProblemRow(path, uncut.reason, path, size, mtime_ns, time.time_ns(), attempt)
    writer.catalogue.add_problem(source, row)


def _take_in(
    writer: Writer,
    sources: Sources,
    base: int,
    paths: Sequence[Path],
    forget: Sequence[Path | GitOrigin],
    origins: Sequence[GitOrigin],
    dropped: list[Source],
    result: SyncReport,
) -> None:
    """Reads the sources that the sync is about. A sync that only forgets sources reads none."""
    if not (paths or origins) and forget:
        return
    intake = Intake(
        writer.catalogue, writer.backend, writer.layout, writer.services, writer.reading, base, writer.files,
        writer.author, writer.report,
    )  # fmt: skip
    for source, below in sources.targets(paths, dropped) if paths or not origins else ():
        stale_for = sources.fetched_again(source)
        scanned = intake.scan(source, below, sources.read_elsewhere(source, dropped))
        intake.take(source, below, result, scanned, stale_for)
    for origin in origins:
        fetched = sources.fetched(origin)
        intake.take(fetched, "", result, intake.scan(fetched))


_QUIET_MS = 300
"""Milliseconds without a change after which changes are reported."""


def changes(roots: Sequence[Path], stop: Event | None = None) -> Iterator[None]:
    """Yields once when watching has begun (files may have changed before), and again whenever files have changed and no
    further change has followed for a moment. It ends only when `stop` is set."""
    from watchfiles import watch

    def matters(_: object, path: str) -> bool:  # every sync writes the data folder, which may lie in a source
        below = next((Path(path).relative_to(root) for root in roots if root in Path(path).parents), Path())
        return not any(step.startswith(".") for step in below.parts)

    begun = False
    for changed in watch(
        *roots,
        watch_filter=matters,
        debounce=10 * _QUIET_MS,
        step=_QUIET_MS,
        rust_timeout=_QUIET_MS,
        yield_on_timeout=True,
        stop_event=stop,
    ):
        if changed or not begun:
            yield
        begun = True
