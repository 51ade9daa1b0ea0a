"""KnowledgeBase: the interface that the command line and Python programs use.

    kb = KnowledgeBase.open(".")
    kb.sync("docs/")
    for hit in kb.search("CTR filing deadline", Access.public()).hits:
        print(hit.rank, hit.document, hit.text)

Reading and writing are separate. A search runs on the current `Searcher`, which shows one generation and never changes;
a search writes and builds nothing. Methods that write (`sync`, `build` …) use a `Writer`, one at a time. `kb.drafts`
writes, reviews and publishes drafts.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Self

from surefind.base.access import Access
from surefind.base.errors import NotBuiltError, NothingIndexedError, SourceError, StoreError
from surefind.base.protocols import OnProgress, Retriever
from surefind.base.types import Document, Effort, SearchResult, Turn
from surefind.engine.search.hits import PARENT, Extent
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.search.reader import Current, Opening, Searcher, check_query
from surefind.engine.services import LocalServices
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.database import explaining
from surefind.engine.store.versions import Generation, Version
from surefind.engine.write.layout import Layout
from surefind.kb.drafting import Drafts
from surefind.kb.queries import QueryLog
from surefind.kb.settings.config import FILE_NAME, Settings, load_settings
from surefind.kb.shared import Shared, Writers

if TYPE_CHECKING:
    from surefind.base.prompts.values import Calls
    from surefind.engine.write.intake import SyncReport
    from surefind.kb.shared import Gate
    from surefind.kb.status import Status


class KnowledgeBase:
    """Indexes and searches the documents of one knowledge base. `KnowledgeBase.open(folder)` returns one. `kb.drafts`
    is what can be done with its drafts."""

    def __init__(self, folder: Path, once: bool = False, author: str = "") -> None:
        self._shared = Shared(folder, once, author)
        self._writers = Writers(self._shared)
        self.drafts = Drafts(self._shared, self._writers)
        self.folder = folder
        self.data = self._shared.data

    @classmethod
    def open(cls, folder: str | Path = ".", once: bool = False, author: str = "") -> KnowledgeBase:
        """Opens the knowledge base of a folder: its surefind.toml (or the defaults) and its .surefind data. A program
        that searches once starts faster with `once`; its results are the same. `author` is who changes it; by default
        $SUREFIND_AUTHOR, or the user of this machine."""
        path = Path(folder).expanduser()
        if path.exists() and not path.is_dir():
            raise StoreError(f"{path} is a file. Give the folder that holds (or will hold) the knowledge base.")
        return cls(path.resolve(), once, author)

    def close(self) -> None:
        """Closes the readers, the services, the catalogue and the drafts. A `with` statement does so at its end. Calls
        that other threads have begun end as they would, or raise `ClosedError`, as all later calls do."""
        self._shared.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def reload(self) -> bool:
        """Reads surefind.toml again, and returns whether the settings have changed. Searches that run end with the
        settings that they began with. Raises `ConfigError` if the file is not valid, and `NotBuiltError` if an index is
        missing: the settings then stay as they are, except for the access rules, which never wait."""
        settings = load_settings(self.folder / FILE_NAME)
        if settings == self.settings:
            return False
        waits = self.missing(self.settings.retrievers, self.settings.layout) if self._shared.exists else []
        lacking = self.missing(settings.retrievers, settings.layout) if self._shared.exists else []
        chosen = settings.named(settings.pipeline).retrieve if settings.auto else ()  # by another process; see complete
        if lacking := [retriever for retriever in lacking if retriever not in (*waits, *chosen)]:
            if (settings.access, settings.isolated) != (self.settings.access, self.settings.isolated):
                self.use(replace(self.settings, access=settings.access, isolated=settings.isolated))
            listed = ", ".join(sorted({retriever.name for retriever in lacking}))
            raise NotBuiltError(f"The new settings need an index for {listed}. Build it with: surefind sync.")
        self.use(settings)
        return True

    def use(self, settings: Settings) -> None:
        """Replaces the settings. Searches that run end with those that they began with."""
        self._shared.use(settings)

    @property
    def author(self) -> str:
        """Who changes the knowledge base."""
        return self._shared.author

    @property
    def settings(self) -> Settings:
        """What surefind.toml says; `reload` reads it again."""
        return self._shared.settings

    @property
    def services(self) -> LocalServices:
        """The encoders and language models."""
        return self._shared.services

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue, opened read-only. Any thread may use it."""
        return self._shared.catalogue

    @property
    def queries(self) -> QueryLog:
        """The queries that searches keep for an exam, if the settings say so: `queries.keep` after an answer."""
        return QueryLog(self.data, self.settings.keep_days, self.settings.keep_queries)

    # ------------------------------------------------------------ reading

    def reader(self, layout: Layout | None = None) -> Searcher:
        """Returns the reader of the current generation. If another process has committed a newer generation, it is
        opened in the background and a later call returns it; a call that may be more than 5 s late waits for it."""
        with explaining(self.data):
            return self._current(layout).get()

    def reader_of(self, generation: int) -> Searcher:
        """Returns a reader of a generation that is kept, in the layout of the settings."""
        with explaining(self.data):
            return self._opening(str(self.settings.layout)).kept(generation)

    def refresh(self) -> None:
        """Opens the newest generation, so that the next search sees everything committed so far."""
        self._shared.refresh()

    def _current(self, layout: Layout | None) -> Current:
        spec = str(layout or self.settings.layout)
        shared = self._shared
        known = shared.currents.get(spec)
        if known is None:
            with shared.lock:
                known = shared.currents.setdefault(spec, Current(self.catalogue.generation, self._opening(spec).open))
        return known

    def _opening(self, layout: str) -> Opening:
        settings = self.settings
        own = layout == str(settings.layout)
        required, awaited = (settings.first, settings.retrievers) if own else ([], [])
        return Opening(self.catalogue, self._shared.backend, layout, self.services, settings.access, required, awaited)

    def has_cut(self, layout: Layout | None) -> bool:
        """Returns whether the current generation is cut in this layout."""
        spec = str(layout or self.settings.layout)
        try:
            with explaining(self.data):
                return self._shared.backend.has(self.catalogue.snapshot_id(), spec)
        except NothingIndexedError:
            return False

    def missing(self, retrievers: Iterable[Retriever], layout: Layout | None = None) -> list[Retriever]:
        """Returns the retrievers, of these and the ones they use, that have no index of the current generation."""
        wanted = list(retrievers)
        try:
            with explaining(self.data):
                return self._current(layout).refresh().missing(wanted)
        except NotBuiltError:
            return wanted

    def pipeline(self, pipeline: str | Pipeline | None = None) -> Pipeline:
        """Returns a pipeline by its name in the settings or from its spec; without either, the default one."""
        return pipeline if isinstance(pipeline, Pipeline) else self.settings.find(pipeline or self.settings.pipeline)

    def search(
        self,
        query: str,
        access: Access,
        k: int | None = None,
        pipeline: str | Pipeline | None = None,
        offset: int = 0,
        layout: Layout | None = None,
        extent: Extent = PARENT,
        min_confidence: float | None = None,
        confidence: Effort | None = None,
        history: Sequence[Turn] = (),
    ) -> SearchResult:
        """Finds the k best passages after the first `offset`, among the documents that `access` admits, in this layout
        or in that of the settings; none if it is less sure of the first one than `min_confidence`, or the settings'
        minimum. `extent` says how much text a hit has, and `confidence` how the search finds out how sure it is, if not
        as the settings say. `history` are the questions before, on which this one may lean. Raises `NotBuiltError` if
        an index is missing; `build` makes it."""
        k = self.settings.k if k is None else k
        least = self.settings.min_confidence if min_confidence is None else min_confidence
        effort = self.settings.effort() if confidence is None else confidence
        check_query(query, k, offset, least, effort)
        return self.reader(layout).search(
            query, access, self.pipeline(pipeline), k, offset, extent, least, effort, tuple(history)
        )

    def documents(self, access: Access) -> list[Document]:
        """Returns every document of the current generation that the caller may read, in order of id."""
        return self.reader().documents(access)

    def index_sizes(self, layout: Layout | None = None) -> dict[str, int]:
        """Returns the bytes on disk of each index of the current generation, by index spec."""
        with explaining(self.data):
            return self._shared.backend.sizes(self.catalogue.snapshot_id(), str(layout or self.settings.layout))

    def folders(self, generation: int) -> list[Path]:
        """Returns the folders of the indexes of a generation. They stay as they are while a reader of it is in use."""
        with explaining(self.data):
            return self._shared.backend.folders(self.catalogue.kept(generation).contents)

    def generations(self) -> list[Generation]:
        """Returns the generations that are kept, oldest first."""
        with explaining(self.data):
            return self.catalogue.generations()

    def history(self, document: str) -> list[Version]:
        """Returns the versions of a document that are kept, newest first."""
        with explaining(self.data):
            return self.catalogue.versions.history(document, self.catalogue.generations())

    def status(self) -> Status:
        """Describes the knowledge base: documents, sources, indexes, generations, problems."""
        from surefind.kb.status import status_of

        with explaining(self.data):
            backend, drafts = self._shared.backend, self._shared.drafts.count()
            return status_of(self.folder, self.catalogue, backend, self.reader(), self.settings, drafts)

    # ------------------------------------------------------------ writing

    def sync(
        self,
        *paths: str | Path,
        forget: Sequence[str | Path] = (),
        report: OnProgress | None = None,
        index: bool = True,
        revision: str = "",
        gate: Gate | None = None,
        ray: str = "",
        tell: Callable[[str], None] = lambda text: None,
        wait: bool = True,
    ) -> SyncReport:
        """Reads the files that changed below `paths` (or in every known source) and indexes them for every configured
        pipeline. `git+https://…@REVISION` names a Git repository, and so does a path with a `revision`. Sources in
        `forget` are removed. With `index=False` documents are only cut into chunks; `build` makes the indexes.
        `gate` is asked before the result is published; it is required if the settings say `gate = true`. `ray` is the
        address of a Ray cluster that prepares the files. If vectors take long, documents are published by their words
        first, and then the rest is done as by `complete`, if not told to `wait` is false; `tell` gets sentences."""
        from surefind.engine.files.git import GitOrigin, source
        from surefind.engine.store.cache import remove
        from surefind.engine.write.sync import sync
        from surefind.kb.completing import choose_default

        retrievers = self.settings.retrievers if index else []
        with (
            self._leaving_nothing(),
            self._writers.open(report=report, gate=self._writers.gate(gate), ray=ray) as writer,
        ):
            if not paths and not forget and not writer.catalogue.sources():
                raise NothingIndexedError("This knowledge base has no sources yet. Name a folder: surefind sync docs/.")
            wanted = [source(path, revision) for path in paths]
            folders = [path for path in wanted if isinstance(path, Path)]
            origins = [origin for origin in wanted if isinstance(origin, GitOrigin)]
            forgotten = [source(path) for path in forget]
            made = sync(writer, retrievers, folders, forgotten, origins, self.settings.first if index else [])
        if index and self.settings.auto and choose_default(self, tell):
            made.waits = True
        if made.waits and wait:
            tell(f"{made.documents:,} documents are searchable by words after {made.seconds:.0f} s.")
            began = time.perf_counter()
            made.rebuilt += self.complete(report, tell)
            made.generation = self.catalogue.generation()
            made.seconds += time.perf_counter() - began
        if not ray:  # an earlier sync on a cluster may have been stopped, and what it prepared is of no more use
            remove(self._writers.checkpoint)
        return made

    @contextlib.contextmanager
    def _leaving_nothing(self) -> Iterator[None]:
        """Deletes what a first sync has written if it found nothing to index."""
        new = not self.data.exists()
        try:
            yield
        except SourceError:
            if new and not (self.data / "cache").exists():
                self._shared.forget()
            raise

    def build(
        self, *pipelines: str | Pipeline, layout: Layout | None = None, report: OnProgress | None = None
    ) -> list[str]:
        """Makes the current generation searchable by these pipelines: cuts and indexes what the layout lacks.
        Returns the names of the indexes that were built."""
        return self.build_for([r for pipeline in pipelines for r in self.pipeline(pipeline).retrieve], layout, report)

    def build_for(
        self,
        retrievers: Sequence[Retriever],
        layout: Layout | None = None,
        report: OnProgress | None = None,
        repair: bool = False,
    ) -> list[str]:
        """Does what `build` does, for retrievers. Takes the writer's lock only if something is missing. With `repair`,
        also rebuilds existing indexes whose checksums do not match."""
        if not repair and self.has_cut(layout) and not self.missing(retrievers, layout):
            return []
        with self._writers.open(layout, report) as writer:
            contents = writer.catalogue.snapshot_id()
            writer.cut(contents)
            return writer.build(contents, retrievers)

    def complete(self, report: OnProgress | None = None, tell: Callable[[str], None] = lambda text: None) -> list[str]:
        """Builds what the current generation still lacks for the configured pipelines, one index after the other, and
        publishes each. Vectors are computed without the writer's lock, so that others can write meanwhile. Returns the
        names of the retrievers whose indexes were built; none if another process is doing the same."""
        from surefind.kb.completing import complete

        return complete(self, self._writers, self._shared.backend, report, tell)

    def compact(self, report: OnProgress | None = None) -> list[str]:
        """Merges the parts that many syncs have left in the indexes of the configured pipelines, where it is worth the
        time. Other writers do not wait for it. The next sync uses the result; searches notice nothing. Returns the
        names of the merged indexes."""
        from surefind.engine.write.writer import merge

        about = str(self.settings.layout), self.settings.retrievers, self.services
        with explaining(self.data):
            return merge(self.catalogue, self._shared.backend, *about, self._writers.change, report)

    def rollback(self, generation: int) -> Generation:
        """Commits a new generation with the documents of an earlier one, and returns the earlier one. Nothing is
        rebuilt. The next sync takes in what the folders hold at that time."""
        with self._writers.change() as writer:
            return writer.rollback(generation)

    def retire(self, document: str, report: OnProgress | None = None, gate: Gate | None = None) -> int:
        """Removes a document, but not its file. Returns the number of the new generation. `gate` is as in `sync`."""
        from surefind.engine.write.writer import retire

        with self._writers.change(report, self._writers.gate(gate)) as writer:
            return retire(writer, document, self.settings.retrievers)

    def changes(self, stop: Event | None = None) -> Iterator[None]:
        """Watches the sources: yields once when watching has begun, and again whenever their files have changed.
        It ends only when `stop` is set."""
        from surefind.engine.write.sync import changes

        roots = [source.root for source in self.catalogue.sources() if not source.origin and source.root.exists()]
        if not roots:
            raise NothingIndexedError("There is no folder to watch. Name one: surefind sync docs/ --watch.")
        return changes(roots, stop)

    def sync_calls(
        self, *paths: str | Path, layout: Layout | None = None, retrievers: Sequence[Retriever] | None = None
    ) -> list[Calls]:
        """Estimates the LLM calls of a sync of these paths (or of every known source), as an upper bound. Counts the
        files that changed, or all files if the layout or an index is new."""
        from surefind.engine.files.git import source
        from surefind.engine.write.quote import known_files, sync_calls

        settings = self.settings
        roots = [source(path) for path in paths]
        with contextlib.suppress(NothingIndexedError):  # the sync makes the catalogue
            roots = roots or [source.root for source in self.catalogue.sources()]
        return sync_calls(
            layout or settings.layout, (settings.files, settings.readers), [r for r in roots if isinstance(r, Path)],
            lambda: known_files(self.catalogue), self.has_cut(layout),
            settings.retrievers if retrievers is None else retrievers,
            lambda retriever: bool(self.missing([retriever], layout)),
        )  # fmt: skip
