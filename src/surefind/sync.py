"""Bringing the knowledge base up to date with its folders: only what changed is read, cut and embedded."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surefind.errors import CorruptIndexError, MissingPartError, SourceError
from surefind.ingest._git import GitOrigin, fetch
from surefind.ingest._reading import Reading
from surefind.ingest._scan import scan
from surefind.intake import Intake, Problem, SyncReport, cut
from surefind.intake import Report as Report
from surefind.layout import Layout
from surefind.protocols import Index, Retriever, Reuse
from surefind.services import Services
from surefind.snapshot import Snapshot
from surefind.store.catalogue import Catalogue
from surefind.store.indexes import FORMAT, IndexStore
from surefind.store.rows import Source

_BATCH = 200


@dataclass(frozen=True)
class Syncer:
    catalogue: Catalogue
    indexes: IndexStore
    services: Services
    layout: Layout
    retrievers: Sequence[Retriever]
    reading: Reading
    exclude: Sequence[str] = ()
    report: Report = lambda what, done, total: None

    def sync(
        self, paths: Sequence[Path], forget: Sequence[Path | GitOrigin] = (), origins: Sequence[GitOrigin] = ()
    ) -> SyncReport:
        """Without paths or origins, every source is brought up to date. The caller holds the writer lock."""
        started = time.perf_counter()
        result = SyncReport()
        self.catalogue.sweep_pending()
        generation = self.catalogue.generation() + 1
        dropped = self._forgotten(forget)
        result.removed = sum(map(self._remove_documents, dropped))
        intake = Intake(self.catalogue, self.layout, self.services, self.reading, generation, self.exclude, self.report)
        if paths or origins or not forget:
            for source, below in self._targets(paths, dropped) if paths or not origins else ():
                intake.take(source, below, result, self._fetched_again(source))
            for origin in origins:
                intake.take(self._fetched(origin), "", result)
        changed = result.added + result.changed + result.removed
        if not changed and generation > 1:
            generation -= 1
        result.problems += self.cut(generation)
        snapshot = Snapshot(self.catalogue, generation, str(self.layout))
        for retriever in self.retrievers:
            if build_index(self, snapshot, retriever):
                result.rebuilt.append(retriever.name)
        if changed or generation > self.catalogue.generation():
            with self.catalogue.transaction():
                self.catalogue.commit_generation(generation)
                for source in dropped:
                    self.catalogue.drop_source(source)
            for source in dropped:
                if source.origin:
                    shutil.rmtree(source.root.parent, ignore_errors=True)
            self.catalogue.sweep_old(generation - 1)
        self._collect(generation)
        result.generation = generation
        result.documents = len(self.catalogue.document_rows(generation))
        result.chunks = len(snapshot)
        result.seconds = time.perf_counter() - started
        return result

    # ------------------------------------------------------------ sources

    def _targets(self, paths: Sequence[Path], dropped: list[Source]) -> list[tuple[Source, str]]:
        """Which sources to sync and, for a path inside one, which part of it. Every path is checked before
        anything is written; a path inside another one is part of it."""
        if not paths:
            for source in self.catalogue.sources():
                if not source.root.exists() and not source.origin:
                    raise SourceError(
                        f"The source {source.root} is gone. Bring it back, or drop its documents with: "
                        f"surefind sync --forget {source.root}."
                    )
            return [(source, "") for source in self.catalogue.sources()]
        wanted = list(dict.fromkeys(path.resolve() for path in paths))
        for path in wanted:
            if not path.exists():
                raise SourceError(f"There is no file or folder {path}. Check the path; nothing was changed.")
        wanted = [path for path in wanted if not any(other in path.parents for other in wanted)]
        for path in wanted:
            if not any(source.root in (path, *path.parents) for source in self.catalogue.sources()):
                self._check_not_empty(path)
        return [self._target(path, dropped) for path in wanted]

    def _target(self, path: Path, dropped: list[Source]) -> tuple[Source, str]:
        for source in self.catalogue.sources():
            if source.root in (path, *path.parents):
                below = "" if path == source.root else path.relative_to(source.root).as_posix()
                return source, below
        for source in self.catalogue.sources():
            if path in source.root.parents and not source.origin:  # the new source takes in an old one
                self._remove_documents(source)
                dropped.append(source)
        return self.catalogue.add_source(path), ""

    def _check_not_empty(self, path: Path) -> None:
        seen: Counter[str] = Counter()
        for entry in scan(path, self.exclude):
            if self.reading.find(entry.relative):
                return
            seen[Path(entry.relative).suffix or "no suffix"] += 1
        found = f"its {sum(seen.values())} files are {_listing(seen)}" if seen else "it holds no files"
        raise SourceError(
            f"There is nothing to index in {path}: {found}. Known types: {', '.join(self.reading.readers.suffixes())}."
        )

    def _forgotten(self, roots: Sequence[Path | GitOrigin]) -> list[Source]:
        known = {_place(source): source for source in self.catalogue.sources()}
        wanted = {root: root.url if isinstance(root, GitOrigin) else str(root.resolve()) for root in roots}
        for root, place in wanted.items():
            if place not in known:
                listed = ", ".join(known) or "none"
                raise SourceError(f"{root} is not a source of this knowledge base. Sources: {listed}.")
        return [known[place] for place in wanted.values()]

    def _fetched(self, origin: GitOrigin) -> Source:
        """The source that holds a repository's files, brought to the origin's revision."""
        known = next((s for s in self.catalogue.sources() if _place(s) == origin.url), None)
        folder = known.root.parent if known else self.catalogue.path.parent.resolve() / "git" / origin.key
        self.report(f"Fetching {origin.name}", 0, 1)
        commit = fetch(origin, folder, known.revision if known else "", self._wants)
        self.report(f"Fetching {origin.name}", 1, 1)
        source = known or self.catalogue.add_source(folder / "tree", origin.name, str(origin))
        self.catalogue.set_revision(source, str(origin), commit)
        return source

    def _fetched_again(self, source: Source) -> str:
        """Bring a source that has an origin up to date. Returns why not, or nothing: its files are still there."""
        if not source.origin:
            return ""
        try:
            self._fetched(GitOrigin.parse(source.origin))
        except (SourceError, MissingPartError) as error:
            return f"cannot be fetched ({error}); the files of commit {source.revision[:12]} are kept"
        return ""

    def _wants(self, path: str, size: int) -> bool:
        return self.reading.find(path) is not None and size <= self.reading.limits.file_mb * 1e6

    def _remove_documents(self, source: Source) -> int:
        rows = [row for file in self.catalogue.files(source).values() for row in file.rows]
        self.catalogue.remove_documents(rows, self.catalogue.generation() + 1)
        return len(rows)

    # ------------------------------------------------------------ chunks and indexes

    def cut(self, generation: int) -> list[Problem]:
        """Cut the documents that this layout has not seen: all of them after a change of chunker."""
        problems: list[Problem] = []
        layout = self.catalogue.layout(str(self.layout))
        rows = self.catalogue.unchunked(layout, generation)
        for at in range(0, len(rows), _BATCH):
            with self.catalogue.transaction():
                for i, row in enumerate(rows[at : at + _BATCH], at):
                    self.report("Chunking", i, len(rows))
                    document = self.catalogue.document(row)
                    wanting = cut(self.catalogue, self.layout, layout, document, row, self.services)
                    if wanting:
                        problems.append(Problem(document.id, wanting))
        return problems

    def _collect(self, generation: int) -> None:
        """Drop indexes that neither this generation nor the one before it uses."""
        keep = set()
        for key, _, _, built in self.catalogue.indexes():
            if built >= generation - 1:
                keep.add(key)
            else:
                self.catalogue.drop_index(key)
        for key in self.indexes.list_keys():
            if key not in keep:
                self.indexes.drop(key)


def index_key(snapshot: Snapshot, retriever: Retriever) -> str:
    """What an index is built from decides its name."""
    parts = f"{snapshot.fingerprint}\0{retriever.index_spec}\0{FORMAT}"
    return hashlib.blake2b(parts.encode(), digest_size=12).hexdigest()


def build_index(syncer: Syncer, snapshot: Snapshot, retriever: Retriever) -> bool:
    """Build and save what a retriever needs for this snapshot, unless it is there. Says whether it built."""
    key = index_key(snapshot, retriever)
    if syncer.indexes.has(key):
        syncer.catalogue.record_index(key, snapshot.layout, retriever.index_spec, snapshot.generation)
        return False
    chunks = snapshot.chunks()
    what = f"Indexing {retriever.name}"
    syncer.report(what, 0, len(chunks))
    reuse = _reuse(syncer, snapshot, retriever)
    index = retriever.build(chunks, syncer.services, reuse, lambda done, total: syncer.report(what, done, total))
    syncer.indexes.save(key, index, retriever.index_spec)
    syncer.catalogue.record_index(key, snapshot.layout, retriever.index_spec, snapshot.generation)
    syncer.report(what, len(chunks), len(chunks))
    return True


def _reuse(syncer: Syncer, snapshot: Snapshot, retriever: Retriever) -> Reuse | None:
    """The newest index of the same kind over the same layout, and where each chunk stood in it."""
    for key, layout, built_from, generation in reversed(syncer.catalogue.indexes()):
        same = layout == snapshot.layout and built_from == retriever.index_spec
        if same and generation >= snapshot.generation - 1 and syncer.indexes.has(key):
            earlier = Snapshot(syncer.catalogue, generation, layout)
            index = _load_quietly(syncer, key, retriever)
            if index is not None and len(index) == len(earlier):
                return Reuse(index, origin(earlier, snapshot))
    return None


def _load_quietly(syncer: Syncer, key: str, retriever: Retriever) -> Index | None:
    try:
        return syncer.indexes.load(key, retriever, syncer.services)
    except CorruptIndexError:
        return None  # it is only a head start; building from nothing gives the same


def origin(earlier: Snapshot, later: Snapshot) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """For each chunk of the later snapshot its ordinal in the earlier one, or -1."""
    places = {tuple(pair): i for i, pair in enumerate(earlier.rows[:, :2].tolist())}
    return np.array([places.get(tuple(pair), -1) for pair in later.rows[:, :2].tolist()], dtype=np.int32)


def _place(source: Source) -> str:
    """What tells sources apart: the folder, or the repository whatever its revision."""
    return GitOrigin.parse(source.origin).url if source.origin else str(source.root)


def _listing(counts: Counter[str]) -> str:
    return ", ".join(f"{suffix} ×{count}" for suffix, count in counts.most_common(5))
