"""KnowledgeBase: the interface that the command line and Python programs use.

    kb = KnowledgeBase.open(".")
    kb.sync("docs/")
    for hit in kb.search("CTR filing deadline", Access.public()).hits:
        print(hit.rank, hit.document, hit.text)

Reading and writing are separate. A search runs on the current `Searcher`, which shows one generation and never changes;
a search writes and builds nothing. Methods that write (`sync`, `build`, `publish` …) use a `Writer`, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Self

from surefind.access import Access, checked_name
from surefind.errors import NotBuiltError, NothingIndexedError, StoreError
from surefind.kb.drafting import Drafting
from surefind.kb.writing import Writing
from surefind.protocols import Retriever
from surefind.search.current import Current
from surefind.search.extent import Extent
from surefind.search.hits import PARENT
from surefind.search.opening import Opening
from surefind.search.pipeline import Pipeline
from surefind.search.reader import Searcher, check_query
from surefind.services import LocalServices
from surefind.settings.config import DATA_FOLDER, FILE_NAME, Settings, load_settings
from surefind.store.backend import Backend
from surefind.store.backends.choice import backend_of
from surefind.store.catalogue import NAME, Catalogue
from surefind.store.connection import closed
from surefind.store.failures import explaining
from surefind.store.lock import nothing_yet
from surefind.store.rows import Generation, Version
from surefind.types import Document, Effort, SearchResult
from surefind.write.layout import Layout

if TYPE_CHECKING:
    from surefind.desk.store import Desk
    from surefind.kb.status import Status


class KnowledgeBase(Writing, Drafting):
    """Indexes and searches the documents of one knowledge base. `KnowledgeBase.open(folder)` returns one."""

    def __init__(self, folder: Path, once: bool = False, author: str = "") -> None:
        self.folder = folder
        self._author = checked_name(author, "person") if author else ""
        self._once = once
        self.settings = load_settings(folder / FILE_NAME)
        self.data = folder / DATA_FOLDER
        self.services = self._services(self.settings)
        self._catalogue: Catalogue | None = None
        self._currents: dict[str, Current] = {}
        self._desk: Desk | None = None
        self._closed = False
        self._lock = RLock()

    @classmethod
    def open(cls, folder: str | Path = ".", once: bool = False, author: str = "") -> KnowledgeBase:
        """Opens the knowledge base of a folder: its surefind.toml (or the defaults) and its .surefind data. A program
        that searches once starts faster with `once`; its results are the same. `author` is who changes it; by default
        $SUREFIND_AUTHOR, or the user of this machine."""
        path = Path(folder).expanduser()
        if path.exists() and not path.is_dir():
            raise StoreError(f"{path} is a file. Give the folder that holds (or will hold) the knowledge base.")
        return cls(path.resolve(), once, author)

    @property
    def author(self) -> str:
        """Who changes the knowledge base."""
        from surefind.write.writer import this_user

        return self._author or this_user()

    def close(self) -> None:
        """Closes the readers, the services, the catalogue and the desk. A `with` statement does so at its end. Calls
        that other threads have begun end as they would, or raise `ClosedError`, as all later calls do."""
        with self._lock:
            self._closed = True
            currents = list(self._currents.values())
            self._currents = {}
            catalogue, desk = self._catalogue, self._desk
            self._catalogue = self._desk = None
        self.services.close()
        for current in currents:
            current.close()
        if catalogue:
            catalogue.close()
        if desk:
            desk.close()

    def _check_open(self) -> None:
        """Raises `ClosedError` after `close`."""
        if self._closed:
            raise closed(self.data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def reload(self) -> bool:
        """Reads surefind.toml again, and returns whether the settings have changed. Searches that run end with the
        settings that they began with. Raises `ConfigError` if the file is not valid, and `NotBuiltError` if an index is
        missing: the settings then stay as they are, except for the access rules, which never wait."""
        settings = load_settings(self.folder / FILE_NAME)
        if settings == self.settings:
            return False
        wanted = [retriever for pipeline in settings.pipelines.values() for retriever in pipeline.retrieve]
        if self._exists() and (lacking := self.missing(wanted, settings.layout)):
            if (settings.access, settings.isolated) != (self.settings.access, self.settings.isolated):
                self._use(replace(self.settings, access=settings.access, isolated=settings.isolated))
            listed = ", ".join(sorted({one.name for one in lacking}))
            raise NotBuiltError(f"The new settings need an index for {listed}. Build it with: surefind sync.")
        self._use(settings)
        return True

    def _use(self, settings: Settings) -> None:
        with self._lock:
            if settings.llm != self.settings.llm:
                self.services = self._services(settings)
            self.settings = settings
            if self._desk:
                self._desk.needed = settings.desk.approvals
            self._currents = {}  # their readers know the earlier access rules

    def _services(self, settings: Settings) -> LocalServices:
        return LocalServices(self.data / "cache", self.data / "models", settings.llm, self.folder / "prompts")

    # ------------------------------------------------------------ reading

    def _exists(self) -> bool:
        return (self.data / NAME).exists()

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue, opened read-only. Any thread may use it."""
        if not self._exists():
            raise nothing_yet(self.data, f"There is no knowledge base in {self.folder} yet.")
        with self._lock:
            self._check_open()
            self._catalogue = self._catalogue or Catalogue(self.data, readonly=True)
            return self._catalogue

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
        return Opening(self.catalogue, self._backend(), layout, self.services, self.settings.access, required)

    def _backend(self) -> Backend:
        return backend_of(self.settings.store, self.catalogue, self.settings.isolated, self._once)

    def has_cut(self, layout: Layout | None) -> bool:
        """Returns whether the current generation is cut in this layout."""
        spec = str(layout or self.settings.layout)
        try:
            with explaining(self.data):
                return self._backend().has(self.catalogue.snapshot_id(), spec)
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
    ) -> SearchResult:
        """Finds the k best passages after the first `offset`, among the documents that `access` admits, in this layout
        or in that of the settings; none if it is less sure of the first one than `min_confidence`, or the settings'
        minimum. `extent` says how much text a hit has, and `confidence` how the search finds out how sure it is, if not
        as the settings say. Raises `NotBuiltError` if an index is missing; `build` makes it."""
        k = self.settings.k if k is None else k
        least = self.settings.min_confidence if min_confidence is None else min_confidence
        effort = self.settings.confidence if confidence is None else confidence
        check_query(query, k, offset, least, effort)
        return self.reader(layout).search(query, access, self.pipeline(pipeline), k, offset, extent, least, effort)

    def documents(self, access: Access) -> list[Document]:
        """Returns every document of the current generation that the caller may read, in order of id."""
        return self.reader().documents(access)

    def index_sizes(self, layout: Layout | None = None) -> dict[str, int]:
        """Returns the bytes on disk of each index of the current generation, by index spec."""
        with explaining(self.data):
            return self._backend().sizes(self.catalogue.snapshot_id(), str(layout or self.settings.layout))

    def folders(self, generation: int) -> list[Path]:
        """Returns the folders of the indexes of a generation. They stay as they are while a reader of it is in use."""
        with explaining(self.data):
            return self._backend().folders(self.catalogue.kept(generation).contents)

    def generations(self) -> list[Generation]:
        """Returns the generations that are kept, oldest first."""
        with explaining(self.data):
            return self.catalogue.generations()

    def versions_of(self, document: str) -> list[Version]:
        """Returns what `history` does, faster: it does not notice a version that the disk lost."""
        with explaining(self.data):
            return self.catalogue.versions.known_of(document, self.catalogue.generations())

    def history(self, document: str) -> list[Version]:
        """Returns the versions of a document that are kept, newest first."""
        with explaining(self.data):
            return self.catalogue.versions.history(document, self.catalogue.generations())

    def status(self) -> Status:
        """Describes the knowledge base: documents, sources, indexes, generations, problems."""
        from surefind.kb.status import status_of

        with explaining(self.data):
            backend, drafts = self._backend(), self.desk.count()
            return status_of(self.folder, self.catalogue, backend, self.reader(), self.settings, drafts)
