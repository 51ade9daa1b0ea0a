"""KnowledgeBase: the interface that the command line and Python programs use.

    kb = KnowledgeBase.open(".")
    kb.sync("docs/")
    for hit in kb.search("CTR filing deadline", Access.public()).hits:
        print(hit.rank, hit.document, hit.text)

Reading and writing are separate. A search runs on the current `Reader`, which shows one generation and never changes;
a search writes and builds nothing. Methods that write (`sync`, `build`, `publish` …) use a `Writer`, one at a time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Event, RLock
from types import TracebackType
from typing import Self

from surefind.access import Access
from surefind.config import DATA_FOLDER, FILE_NAME, load_settings
from surefind.errors import NotBuiltError, NothingIndexedError, OlderStoreError, StoreError, UsageError
from surefind.files.git import GitOrigin, source
from surefind.gate import Gate, admission
from surefind.prompts.values import Calls
from surefind.protocols import OnProgress, Retriever
from surefind.search.current import Current
from surefind.search.opening import Opening
from surefind.search.pipeline import Pipeline
from surefind.search.reader import Reader, check_query
from surefind.services import LocalServices
from surefind.status import Status, status_of
from surefind.store.backends.local import LocalBackend
from surefind.store.catalogue import NAME, Catalogue
from surefind.store.failures import explaining
from surefind.store.lock import nothing_yet
from surefind.store.rows import Generation, Version
from surefind.types import Document, SearchResult
from surefind.write import publish
from surefind.write.intake import SyncReport
from surefind.write.layout import Layout
from surefind.write.quote import known_files, sync_calls
from surefind.write.reading import Reading
from surefind.write.sync import sync
from surefind.write.watch import changes
from surefind.write.writer import Writer


class KnowledgeBase:
    """Indexes and searches the documents of one knowledge base. `KnowledgeBase.open(folder)` returns one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = load_settings(folder / FILE_NAME)
        self.data = folder / DATA_FOLDER
        models, own_prompts = self.data / "models", folder / "prompts"
        self.services = LocalServices(self.data / "cache", models, self.settings.llm, own_prompts)
        self._catalogue: Catalogue | None = None
        self._currents: dict[str, Current] = {}
        self._lock = RLock()

    @classmethod
    def open(cls, folder: str | Path = ".") -> KnowledgeBase:
        """Opens the knowledge base of a folder: its surefind.toml (or the defaults) and its .surefind data."""
        path = Path(folder).expanduser()
        if path.exists() and not path.is_dir():
            raise StoreError(f"{path} is a file. Give the folder that holds (or will hold) the knowledge base.")
        return cls(path.resolve())

    def close(self) -> None:
        """Closes the readers, the services and the catalogue. A `with` statement does so at its end."""
        self.services.close()
        for current in self._currents.values():
            current.close()
        self._currents.clear()
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
        report: OnProgress | None = None,
        index: bool = True,
        revision: str = "",
        gate: Gate | None = None,
    ) -> SyncReport:
        """Reads the files that changed below `paths` (or in every known source) and indexes them for every configured
        pipeline. `git+https://…@REVISION` names a Git repository, and so does a path with a `revision`. Sources in
        `forget` are removed. With `index=False` documents are only cut into chunks; `build` makes the indexes.
        `gate` is asked before the result is published; it is required if the settings say `gate = true`."""
        with self._writing(report=report, gate=self._gate(gate)) as writer:
            if not paths and not forget and not writer.catalogue.sources():
                raise NothingIndexedError("This knowledge base has no sources yet. Name a folder: surefind sync docs/.")
            wanted = [source(path, revision) for path in paths]
            made = sync(
                writer,
                self.retrievers() if index else [],
                [path for path in wanted if isinstance(path, Path)],
                [source(path) for path in forget],
                [origin for origin in wanted if isinstance(origin, GitOrigin)],
            )
        self.refresh()
        return made

    def build(
        self, *pipelines: str | Pipeline, layout: Layout | None = None, report: OnProgress | None = None
    ) -> list[str]:
        """Makes the current generation searchable by these pipelines: cuts and indexes what the layout lacks.
        Returns the names of the indexes that were built."""
        retrievers = [r for pipeline in pipelines for r in self.pipeline(pipeline).retrieve]
        return self.build_for(retrievers, layout, report)

    def build_for(
        self, retrievers: Sequence[Retriever], layout: Layout | None = None, report: OnProgress | None = None
    ) -> list[str]:
        """Does what `build` does, for retrievers. Takes the writer's lock only if something is missing."""
        if self.has_cut(layout) and not self.missing(retrievers, layout):
            return []
        return self.rebuild_for(retrievers, layout, report)

    def rebuild_for(
        self, retrievers: Sequence[Retriever], layout: Layout | None = None, report: OnProgress | None = None
    ) -> list[str]:
        """Does what `build_for` does, and rebuilds existing indexes whose checksums do not match."""
        with self._writing(layout, report) as writer:
            contents = writer.catalogue.contents()
            writer.cut(contents)
            built = writer.build(contents, retrievers)
        self.refresh()
        return built

    def rollback(self, generation: int) -> Generation:
        """Commits a new generation with the documents of an earlier one, and returns the earlier one. Nothing is
        rebuilt. The next sync takes in what the folders hold at that time."""
        with self._changing() as writer:
            earlier = writer.rollback(generation)
        self.refresh()
        return earlier

    def draft(self, file: str | Path, document: str = "") -> Version:
        """Takes in a file as a draft: a new version of a document, which no search finds until it is published."""
        with self._writing() as writer:
            return publish.draft(writer, Path(file).expanduser(), document)

    def review(self, version: int, done: bool = False) -> Version:
        """Hands a draft over to review; with `done`, hands it back to its author."""
        with self._changing() as writer:
            return publish.review(writer, version, "draft" if done else "in review")

    def discard(self, version: int) -> None:
        """Deletes a draft."""
        with self._changing() as writer:
            publish.discard(writer, version)

    def publish(self, version: int, report: OnProgress | None = None, gate: Gate | None = None) -> int:
        """Puts a draft in the place of the document's earlier version. Returns the number of the new generation.
        `gate` is as in `sync`."""
        with self._changing(report, self._gate(gate)) as writer:
            number = publish.publish(writer, version, self.retrievers())
        self.refresh()
        return number

    def retire(self, document: str, report: OnProgress | None = None, gate: Gate | None = None) -> int:
        """Removes a document, but not its file. Returns the number of the new generation. `gate` is as in `sync`."""
        with self._changing(report, self._gate(gate)) as writer:
            number = publish.retire(writer, document, self.retrievers())
        self.refresh()
        return number

    def changes(self, stop: Event | None = None) -> Iterator[None]:
        """Watches the sources: yields once when watching has begun, and again whenever their files have changed.
        It ends only when `stop` is set."""
        roots = [source.root for source in self.catalogue.sources() if not source.origin and source.root.exists()]
        if not roots:
            raise NothingIndexedError("There is no folder to watch. Name one: surefind sync docs/ --watch.")
        return changes(roots, stop)

    def sync_calls(self, *paths: str | Path) -> list[Calls]:
        """Estimates the LLM calls of a sync of these paths (or of every known source), as an upper bound. Counts the
        files that changed, or all files if the layout or an index is new."""
        wanted = [source(path) for path in paths]
        known, roots = {}, list[Path]()
        with contextlib.suppress(NothingIndexedError, OlderStoreError):  # the sync makes or upgrades the catalogue
            known, roots = known_files(self.catalogue), [source.root for source in self.catalogue.sources()]
        folders = [root for root in wanted or roots if isinstance(root, Path)]
        cut, missing = self.has_cut(None), lambda r: bool(self.missing([r]))
        return sync_calls(self.settings, folders, known, cut, self.retrievers(), missing)

    def retrievers(self) -> list[Retriever]:
        """Returns the retrievers of every configured pipeline."""
        return [r for pipeline in self.settings.pipelines.values() for r in pipeline.retrieve]

    @contextlib.contextmanager
    def _writing(
        self, layout: Layout | None = None, report: OnProgress | None = None, gate: Gate | None = None
    ) -> Iterator[Writer]:
        settings = self.settings
        reading = Reading(settings.readers, settings.limits, spare=True)
        admit = admission(gate, settings) if gate else None
        writer = Writer(
            self.data, layout or settings.layout, self.services, reading, settings.files, settings.keep, report, admit
        )
        with explaining(self.data), writer:
            yield writer

    def _changing(
        self, report: OnProgress | None = None, gate: Gate | None = None
    ) -> contextlib.AbstractContextManager[Writer]:
        """Opens a writer; raises `NothingIndexedError` if there is no knowledge base yet."""
        _ = self.catalogue
        return self._writing(report=report, gate=gate)

    def _gate(self, given: Gate | None) -> Gate | None:
        """Returns the given gate. Raises `UsageError` if there is none and the settings require one."""
        if given is None and self.settings.gate:
            raise UsageError(
                "surefind.toml says gate = true, and this call has no gate. Pass "
                "gate=surefind.bench.gate.ExamGate(kb), or gate=surefind.gate.always_open to publish without a check."
            )
        return given

    # ------------------------------------------------------------ reading

    def _exists(self) -> bool:
        return (self.data / NAME).exists()

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue, opened read-only. Any thread may use it."""
        if not self._exists():
            raise nothing_yet(self.data, f"There is no knowledge base in {self.folder} yet.")
        with self._lock:
            self._catalogue = self._catalogue or Catalogue(self.data, readonly=True)
            return self._catalogue

    def reader(self, layout: Layout | None = None) -> Reader:
        """Returns the reader of the current generation. If another process has committed a newer generation, it is
        opened in the background and a later call returns it; `refresh` waits for it."""
        with explaining(self.data):
            return self._current(layout).get()

    def reader_of(self, generation: int) -> Reader:
        """Returns a reader of a generation that is kept, in the layout of the settings."""
        with explaining(self.data):
            return self._opening(str(self.settings.layout)).kept(generation)

    def refresh(self) -> None:
        """Opens the newest generation, so that the next search sees everything committed so far."""
        with explaining(self.data):
            for current in list(self._currents.values()):
                try:
                    current.refresh()
                except NotBuiltError:  # the new generation is not cut in this layout; its next reader gets the error
                    current.drop()

    def _current(self, layout: Layout | None) -> Current:
        spec = str(layout or self.settings.layout)
        known = self._currents.get(spec)
        if known is None:
            with self._lock:
                known = self._currents.setdefault(spec, Current(self.catalogue.generation, self._opening(spec).open))
        return known

    def _opening(self, layout: str) -> Opening:
        required = self.retrievers() if layout == str(self.settings.layout) else []
        backend = LocalBackend(self.catalogue, self.settings.isolated)
        return Opening(self.catalogue, backend, layout, self.services, self.settings.access, required)

    def has_cut(self, layout: Layout | None) -> bool:
        """Returns whether the current generation is cut in this layout."""
        spec = str(layout or self.settings.layout)
        try:
            with explaining(self.data):
                return LocalBackend(self.catalogue).has(self.catalogue.contents(), spec)
        except (NothingIndexedError, OlderStoreError):
            return False

    def missing(self, retrievers: Iterable[Retriever], layout: Layout | None = None) -> list[Retriever]:
        """Returns the retrievers, of these and the ones they use, that have no index of the current generation."""
        wanted = list(retrievers)
        try:
            with explaining(self.data):
                return self._current(layout).refresh().missing(wanted)
        except (NotBuiltError, OlderStoreError):
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
        min_confidence: float | None = None,
    ) -> SearchResult:
        """Finds the k best passages after the first `offset`, among the documents that `access` admits, in this layout
        or in that of the settings; none if it is less sure of the first one than `min_confidence`, or the settings'
        minimum. Raises `NotBuiltError` if an index is missing; `build` makes it."""
        k = self.settings.k if k is None else k
        least = self.settings.min_confidence if min_confidence is None else min_confidence
        check_query(query, k, offset, least)
        return self.reader(layout).search(query, access, self.pipeline(pipeline), k, offset, least)

    def documents(self, access: Access) -> list[Document]:
        """Returns every document of the current generation that the caller may read, in order of id."""
        return self.reader().documents(access)

    def index_sizes(self, layout: Layout | None = None) -> dict[str, int]:
        """Returns the bytes on disk of each index of the current generation, by index spec."""
        with explaining(self.data):
            return LocalBackend(self.catalogue).sizes(self.catalogue.contents(), str(layout or self.settings.layout))

    def generations(self) -> list[Generation]:
        """Returns the generations that are kept, oldest first."""
        with explaining(self.data):
            return self.catalogue.generations()

    def drafts(self) -> list[Version]:
        """Returns the versions that wait to be published, newest first."""
        with explaining(self.data):
            return self.catalogue.versions.in_state(("draft", "in review"), self.catalogue.generations())

    def history(self, document: str) -> list[Version]:
        """Returns the versions of a document that are kept, newest first."""
        with explaining(self.data):
            return self.catalogue.versions.history(document, self.catalogue.generations())

    def status(self) -> Status:
        """Describes the knowledge base: documents, sources, indexes, generations, problems."""
        with explaining(self.data):
            return status_of(self.folder, self.catalogue, LocalBackend(self.catalogue), self.reader(), self.settings)
