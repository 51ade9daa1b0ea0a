"""KnowledgeBase: the one object that every door uses.

kb = KnowledgeBase.open(".")
kb.sync("docs/")
for hit in kb.search("CTR filing deadline").hits:
    print(hit.rank, hit.document, hit.text)
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Self, cast

from surefind.config import DATA_FOLDER, FILE_NAME, load_settings
from surefind.errors import (
    CorruptIndexError,
    DiskFullError,
    NothingIndexedError,
    QueryError,
    SourceError,
    StoreError,
    is_full,
)
from surefind.hits import hits_of
from surefind.ingest._git import PREFIX, GitOrigin, spelled
from surefind.ingest._reading import Reading
from surefind.ingest._scan import scan
from surefind.intake import Problem, Report, SyncReport
from surefind.layout import Layout
from surefind.llm.prices import tokens
from surefind.llm.quote import Calls, Workload
from surefind.pipeline import Pipeline
from surefind.protocols import Index, Priced, Retriever, Wrapper
from surefind.reach import innermost, paid_reader
from surefind.services import Services
from surefind.snapshot import Filter, Snapshot
from surefind.store.catalogue import Catalogue
from surefind.store.indexes import IndexStore
from surefind.store.lock import writer_lock
from surefind.store.rows import Source
from surefind.sync import Syncer, build_index, index_key
from surefind.types import Document, Query, SearchResult

MAX_QUERY = 10_000
MAX_K = 1_000
_QUIET_MS = 300
_CHUNK_TOKENS = 250
"""Of a passage, where a sync is quoted before anything is cut."""


@dataclass(frozen=True)
class Status:
    folder: str
    documents: int
    chunks: int
    generation: int
    last_sync: str
    sources: list[str]
    layout: str
    pipelines: dict[str, str]
    indexes: dict[str, int]
    """Index -> bytes on disk."""
    restricted: int
    problems: list[Problem]


class KnowledgeBase:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = load_settings(folder / FILE_NAME)
        self.data = folder / DATA_FOLDER
        models, own_prompts = self.data / "models", folder / "prompts"
        self.services = Services(self.data / "cache", models, self.settings.llm, own_prompts)
        self.indexes = IndexStore(self.data / "indexes")
        self._catalogue: Catalogue | None = None
        self._snapshots: dict[str, Snapshot] = {}
        self._loaded: dict[str, Index] = {}

    @classmethod
    def open(cls, folder: str | Path = ".") -> KnowledgeBase:
        """The knowledge base of a folder: its surefind.toml (or the defaults) and its .surefind data."""
        path = Path(folder).expanduser()
        if path.exists() and not path.is_dir():
            raise StoreError(f"{path} is a file. Give the folder that holds (or will hold) the knowledge base.")
        return cls(path.resolve())

    def close(self) -> None:
        self.services.close()
        self._snapshots.clear()
        self._loaded.clear()
        if self._catalogue:
            self._catalogue.close()
            self._catalogue = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # ------------------------------------------------------------ writing

    def sync(
        self,
        *paths: str | Path,
        forget: Sequence[str | Path] = (),
        report: Report | None = None,
        index: bool = True,
        revision: str = "",
    ) -> SyncReport:
        """Read what changed below the paths (or in every known source), and index it for every pipeline of the
        settings; with `index=False` each index is built when it is first searched. `git+https://…@REVISION` is a
        repository, and so is a path with a `revision`."""
        pipelines = self.settings.pipelines.values() if index else ()
        needed = {r.index_spec: innermost(r) for pipeline in pipelines for r in pipeline.retrieve}
        with self._writing(self.settings.layout, list(needed.values()), report) as syncer:
            if not paths and not forget and not syncer.catalogue.sources():
                raise NothingIndexedError("This knowledge base has no sources yet. Name a folder: surefind sync docs/.")
            wanted = [_source(path, revision) for path in paths]
            return syncer.sync(
                [path for path in wanted if isinstance(path, Path)],
                [_source(path) for path in forget],
                [origin for origin in wanted if isinstance(origin, GitOrigin)],
            )

    def changes(self, stop: Event | None = None) -> Iterator[None]:
        """Yields as soon as it watches (files may have changed until then), and again whenever files of the sources
        have changed and then kept still for a moment. Without end, unless `stop` is set."""
        from watchfiles import watch

        roots = [source.root for source in self.catalogue.sources() if not source.origin and source.root.exists()]
        if not roots:
            raise NothingIndexedError("There is no folder to watch. Name one: surefind sync docs/ --watch.")

        def matters(_: object, path: str) -> bool:  # the data folder may lie in a source, and is written by every sync
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

    def sync_calls(self, *paths: str | Path) -> list[Calls]:
        """What a sync of these paths (or of every known source) would ask of language models at most: about files that
        changed, or about all where the layout or an index is new."""
        layout = self.settings.layout
        stages = [stage for stage in (layout.chunk, *layout.enrich) if isinstance(stage, Priced)]
        retrievers = [r for pipeline in self.settings.pipelines.values() for r in pipeline.retrieve]
        reading = {str(reader): (r, reader) for r in retrievers if (reader := paid_reader(r))}.values()
        if not stages and not reading:
            return []
        wanted = [_source(path) for path in paths] or [source.root for source in self.catalogue.sources()]
        roots = [p.resolve() for p in wanted if isinstance(p, Path) and p.exists()]  # a repository is not here yet
        entries = [
            e for root in roots for e in scan(root, self.settings.exclude) if self.settings.readers.find(e.relative)
        ]
        cut = self.has_cut(layout)
        known = self._known_files() if cut else {}
        every = _workload([entry.size for entry in entries])
        new = _workload([e.size for e in entries if known.get(e.path) != (e.size, e.mtime_ns)])
        asked = [stage.llm_calls(new) for stage in stages]
        for retriever, reader in reading:
            built = cut and self.indexes.has(index_key(self.snapshot(layout), retriever))
            asked.append(reader.llm_calls(new if built else every))
        return [calls for calls in asked if calls.calls]

    def _known_files(self) -> dict[Path, tuple[int, int]]:
        """Size and time of every file as it was taken in."""
        return {
            source.root / path: (row.size, row.mtime_ns)
            for source in self.catalogue.sources()
            for path, row in self.catalogue.files(source).items()
        }

    @contextlib.contextmanager
    def _writing(
        self, layout: Layout, retrievers: Sequence[Retriever] = (), report: Report | None = None
    ) -> Iterator[Syncer]:
        reading = Reading(self.settings.readers, self.settings.limits)
        with self._in_words(), writer_lock(self.data), reading:
            yield Syncer(
                self.catalogue, self.indexes, self.services, layout, retrievers, reading, self.settings.exclude,
                report or (lambda what, done, total: None),
            )  # fmt: skip

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        """Turns what the disk or SQLite complains of into a sentence with a way out."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise self._explained(error) from error

    def _explained(self, error: OSError | sqlite3.Error) -> Exception:
        if is_full(error, self.data):
            return DiskFullError(
                f"The disk that holds {self.data} is full. What was indexed before is intact; "
                "free some space and run the command again: it goes on where it stopped."
            )
        if isinstance(error, sqlite3.DatabaseError):
            return StoreError(
                f"The catalogue in {self.data} is damaged ({error}). Move {self.data} away and sync again."
            )
        return error

    # ------------------------------------------------------------ reading

    @property
    def catalogue(self) -> Catalogue:
        if self._catalogue is None:
            self._catalogue = Catalogue(self.data)
        return self._catalogue

    def snapshot(self, layout: Layout | None = None, report: Report | None = None) -> Snapshot:
        """The current generation. Cheap if it has not changed since the last call; a layout that no sync has made is
        made first."""
        if not (self.data / "catalogue.db").exists():
            raise NothingIndexedError(
                f"There is no knowledge base in {self.folder} yet. Make one with: surefind sync FOLDER."
            )
        spec = str(layout or self.settings.layout)
        with self._in_words():
            generation = self.catalogue.generation()
            known = self._snapshots.get(spec)
            if known is None or known.generation != generation:
                if known is not None:
                    self._loaded.clear()
                known = Snapshot(self.catalogue, generation, spec)
                if not known.complete:
                    known = self._cut_now(layout or self.settings.layout, report)
                self._snapshots[spec] = known
            return known

    def has_cut(self, layout: Layout | None) -> bool:
        """Whether every document is cut in this layout, so that `snapshot` is cheap."""
        with self._in_words():
            return Snapshot(self.catalogue, self.catalogue.generation(), str(layout or self.settings.layout)).complete

    def _cut_now(self, layout: Layout, report: Report | None) -> Snapshot:
        """The settings name a layout that no sync has made, or made only in part: make it whole."""
        with self._writing(layout, report=report) as syncer:
            generation = self.catalogue.generation()
            syncer.cut(generation)
            return Snapshot(self.catalogue, generation, str(layout))

    def index(self, retriever: Retriever, snapshot: Snapshot, report: Report | None = None) -> Index:
        """What a retriever searches, loaded once; built first if it is missing or damaged."""
        inner = getattr(retriever, "inner", None)
        if inner is not None:  # a view of another retriever's index
            return cast(Wrapper, retriever).wrap(self.index(inner, snapshot, report), self.services)
        key = index_key(snapshot, retriever)
        if key not in self._loaded:
            try:
                if not self.indexes.has(key):
                    raise CorruptIndexError("It is not there.")
                index = self.indexes.load(key, retriever, self.services)
            except CorruptIndexError:
                with self._writing(self.settings.layout, report=report) as syncer:
                    self.indexes.drop(key)
                    build_index(syncer, snapshot, retriever)
                index = self.indexes.load(key, retriever, self.services)
            # Kernels and models load when first used: here, so that no query's time is charged with it.
            index.search(retriever, [Query("warm up")], 1)
            self._loaded[key] = index
        return self._loaded[key]

    def pipeline(self, pipeline: str | Pipeline | None = None) -> Pipeline:
        """A named pipeline, a spec, or the one that the settings choose."""
        if isinstance(pipeline, Pipeline):
            return pipeline
        name = pipeline or self.settings.pipeline
        if name in self.settings.pipelines or not any(mark in name for mark in "(+>@"):
            return self.settings.named(name)
        return Pipeline.parse(name)

    def search(
        self,
        query: str,
        k: int | None = None,
        pipeline: str | Pipeline | None = None,
        where: Sequence[str] = (),
        groups: Iterable[str] = (),
        report: Report | None = None,
    ) -> SearchResult:
        """The k best passages. `groups` are the caller's access groups: a restricted document is seen only by
        a member of one of its groups, and filters and access are applied before anything is ranked."""
        k = self.settings.k if k is None else k
        _check_query(query, k)
        chosen = self.pipeline(pipeline)
        snapshot = self.snapshot()
        if not len(snapshot):
            raise NothingIndexedError(
                f"The knowledge base in {self.folder} is empty. Fill it with: surefind sync FOLDER."
            )
        filters = [Filter.parse(text) for text in where]
        with self._in_words():
            allow, withheld = snapshot.allow(filters, groups)
            run = chosen.run(
                [Query(query)],
                k,
                lambda r: self.index(r, snapshot, report),
                snapshot,
                self.services,
                allow,
                snapshot.families,
            )
            return SearchResult(query, hits_of(run, snapshot, k), run.trace, str(chosen), withheld)

    def documents(self) -> list[Document]:
        """Every document of the current generation, in order of id."""
        generation = self.snapshot().generation
        return [self.catalogue.document(row) for row, _, _ in self.catalogue.document_rows(generation)]

    def status(self) -> Status:
        snapshot = self.snapshot()
        current = [(key, spec) for key, layout, spec, g in self.catalogue.indexes() if g == snapshot.generation]
        return Status(
            folder=str(self.folder),
            documents=len(self.catalogue.document_rows(snapshot.generation)),
            chunks=len(snapshot),
            generation=snapshot.generation,
            last_sync=self.catalogue.last_sync(),
            sources=[_described(source) for source in self.catalogue.sources()],
            layout=str(self.settings.layout),
            pipelines={name: str(pipeline) for name, pipeline in self.settings.pipelines.items()},
            indexes={_label(spec, current): self.indexes.size(key) for key, spec in current},
            restricted=len(self.catalogue.restricted(snapshot.generation)),
            problems=[Problem(found.path, found.reason) for found in self.catalogue.problems()],
        )


def _label(index: str, all_of_them: Sequence[tuple[str, str]]) -> str:
    """An index without its model's fingerprint, unless only that tells two apart."""
    short = index.partition("@")[0]
    return short if sum(spec.partition("@")[0] == short for _, spec in all_of_them) == 1 else index


def _workload(sizes: Sequence[int]) -> Workload:
    """Of files that nobody has read yet, by their bytes."""
    text = tokens(sum(sizes))
    chunks = max(len(sizes), text // _CHUNK_TOKENS)
    return Workload(0, len(sizes), chunks, text // max(1, len(sizes)), _CHUNK_TOKENS)


def _source(path: str | Path, revision: str = "") -> Path | GitOrigin:
    if str(path).startswith(PREFIX):
        origin = GitOrigin.parse(str(path))
        return GitOrigin.at(origin.url, revision) if revision else origin
    if (address := spelled(str(path))) and not Path(path).exists():
        raise SourceError(f"{str(path)!r} is an address and no path. A repository is written {address}.")
    return GitOrigin.at(f"file://{Path(path).expanduser().resolve()}", revision) if revision else Path(path)


def _described(source: Source) -> str:
    return f"{source.origin} ({source.revision[:12] or 'not fetched'})" if source.origin else str(source.root)


def _check_query(query: str, k: int) -> None:
    if not query.strip():
        raise QueryError('The query is empty. Write what you look for: surefind search "CTR filing deadline".')
    if len(query) > MAX_QUERY:
        raise QueryError(
            f"The query has {len(query):,} characters; the most is {MAX_QUERY:,}. Search for the sentence that matters."
        )
    if not 1 <= k <= MAX_K:
        raise QueryError(f"k must be from 1 to {MAX_K:,}, not {k}.")
