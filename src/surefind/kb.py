"""KnowledgeBase: the short front that every door uses.

    kb = KnowledgeBase.open(".")
    kb.sync("docs/")
    for hit in kb.search("CTR filing deadline", Access.public()).hits:
        print(hit.rank, hit.document, hit.text)

Reading and writing are apart. A search runs on the current `Reader`, which is one generation and never changes; it
writes and builds nothing. Whatever writes (`sync`, `build`, `rollback`, `publish`) is a `Writer`, one at a time.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Event, RLock
from types import TracebackType
from typing import Self

from surefind.access import Access
from surefind.config import DATA_FOLDER, FILE_NAME, load_settings
from surefind.errors import (
    DiskFullError,
    NotBuiltError,
    NothingIndexedError,
    OlderStoreError,
    SourceError,
    StoreError,
    is_full,
)
from surefind.ingest._git import PREFIX, GitOrigin, spelled
from surefind.llm.quote import Calls
from surefind.protocols import OnProgress, Retriever
from surefind.search.current import Current
from surefind.search.opening import Opening
from surefind.search.pipeline import Pipeline
from surefind.search.reader import Reader, check_query
from surefind.services import Services
from surefind.status import Status, status_of
from surefind.store.backends.local import LocalBackend
from surefind.store.catalogue import NAME, Catalogue
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
    """A folder of settings and data: syncs documents, builds indexes and searches them.

    Many threads may search one object. Writing takes a lock, one process at a time. Use it in a `with` statement, or
    call `close`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = load_settings(folder / FILE_NAME)
        self.data = folder / DATA_FOLDER
        models, own_prompts = self.data / "models", folder / "prompts"
        self.services = Services(self.data / "cache", models, self.settings.llm, own_prompts)
        self._catalogue: Catalogue | None = None
        self._currents: dict[str, Current] = {}
        self._lock = RLock()

    @classmethod
    def open(cls, folder: str | Path = ".") -> KnowledgeBase:
        """The knowledge base of a folder: its surefind.toml (or the defaults) and its .surefind data."""
        path = Path(folder).expanduser()
        if path.exists() and not path.is_dir():
            raise StoreError(f"{path} is a file. Give the folder that holds (or will hold) the knowledge base.")
        return cls(path.resolve())

    def close(self) -> None:
        """Close files, connections and models."""
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
    ) -> SyncReport:
        """Read what changed below the paths (or in every known source), and index it for every pipeline of the
        settings; with `index=False` documents are cut, and indexes are left to `build`. `git+https://…@REVISION` is a
        repository, and so is a path with a `revision`."""
        with self._writing(report=report) as writer:
            if not paths and not forget and not writer.catalogue.sources():
                raise NothingIndexedError("This knowledge base has no sources yet. Name a folder: surefind sync docs/.")
            wanted = [_source(path, revision) for path in paths]
            made = sync(
                writer,
                self.retrievers() if index else [],
                [path for path in wanted if isinstance(path, Path)],
                [_source(path) for path in forget],
                [origin for origin in wanted if isinstance(origin, GitOrigin)],
            )
        self.refresh()
        return made

    def build(
        self, *pipelines: str | Pipeline, layout: Layout | None = None, report: OnProgress | None = None
    ) -> list[str]:
        """Make the current generation searchable by these pipelines, in a layout: cut and index what is missing.
        Returns the names of the indexes that were built."""
        retrievers = [r for pipeline in pipelines for r in self.pipeline(pipeline).retrieve]
        return self.build_for(retrievers, layout, report)

    def build_for(
        self, retrievers: Sequence[Retriever], layout: Layout | None = None, report: OnProgress | None = None
    ) -> list[str]:
        """As `build`, for retrievers. Without anything to build, no lock is taken."""
        if self.has_cut(layout) and not self.missing(retrievers, layout):
            return []
        return self.rebuild_for(retrievers, layout, report)

    def rebuild_for(
        self, retrievers: Sequence[Retriever], layout: Layout | None = None, report: OnProgress | None = None
    ) -> list[str]:
        """As `build_for`, and what is there is held against its checksums: what is damaged is built again."""
        with self._writing(layout, report) as writer:
            contents = writer.catalogue.contents()
            writer.cut(contents)
            built = writer.build(contents, retrievers)
        self.refresh()
        return built

    def rollback(self, generation: int) -> Generation:
        """Show what an earlier generation showed, as a new generation. Nothing is rebuilt; the next sync brings in what
        the folders hold then."""
        with self._changing() as writer:
            earlier = writer.rollback(generation)
        self.refresh()
        return earlier

    def draft(self, file: str | Path, document: str = "") -> Version:
        """A file as a new version of a document, which nobody finds before it is published."""
        with self._writing() as writer:
            return publish.draft(writer, Path(file).expanduser(), document)

    def review(self, version: int, done: bool = False) -> Version:
        """Hand a draft over to review; with `done`, back to its author."""
        with self._changing() as writer:
            return publish.review(writer, version, "draft" if done else "in review")

    def discard(self, version: int) -> None:
        """Throw a draft away."""
        with self._changing() as writer:
            publish.discard(writer, version)

    def publish(self, version: int, report: OnProgress | None = None) -> int:
        """A draft takes the place of the version before it, in a new generation."""
        with self._changing(report) as writer:
            number = publish.publish(writer, version, self.retrievers())
        self.refresh()
        return number

    def retire(self, document: str, report: OnProgress | None = None) -> int:
        """A new generation without this document; its file stays."""
        with self._changing(report) as writer:
            number = publish.retire(writer, document, self.retrievers())
        self.refresh()
        return number

    def changes(self, stop: Event | None = None) -> Iterator[None]:
        """Yields as soon as it watches the sources, and again whenever their files have changed. Without end, unless
        `stop` is set."""
        roots = [source.root for source in self.catalogue.sources() if not source.origin and source.root.exists()]
        if not roots:
            raise NothingIndexedError("There is no folder to watch. Name one: surefind sync docs/ --watch.")
        return changes(roots, stop)

    def sync_calls(self, *paths: str | Path) -> list[Calls]:
        """What a sync of these paths (or of every known source) would ask of language models at most: about files that
        changed, or about all where the layout or an index is new."""
        wanted = [_source(path) for path in paths]
        known = known_files(self.catalogue) if self._exists() else {}
        roots = wanted or ([source.root for source in self.catalogue.sources()] if self._exists() else [])
        folders = [root for root in roots if isinstance(root, Path)]
        cut, missing = self.has_cut(None), lambda r: bool(self.missing([r]))
        return sync_calls(self.settings, folders, known, cut, self.retrievers(), missing)

    def retrievers(self) -> list[Retriever]:
        """Those of every pipeline of the settings."""
        return [r for pipeline in self.settings.pipelines.values() for r in pipeline.retrieve]

    @contextlib.contextmanager
    def _writing(self, layout: Layout | None = None, report: OnProgress | None = None) -> Iterator[Writer]:
        settings = self.settings
        reading = Reading(settings.readers, settings.limits, spare=True)
        writer = Writer(
            self.data, layout or settings.layout, self.services, reading, settings.exclude, settings.keep, report
        )
        with self._explaining(), writer:
            yield writer

    def _changing(self, report: OnProgress | None = None) -> contextlib.AbstractContextManager[Writer]:
        """To write to a knowledge base that must be there already."""
        _ = self.catalogue
        return self._writing(report=report)

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        """Re-raises disk and SQLite errors with advice on how to recover."""
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
            away = f"Move {self.data} away and sync again."
            return StoreError(f"The catalogue in {self.data} is damaged ({error}). {away}")
        return error

    # ------------------------------------------------------------ reading

    def _exists(self) -> bool:
        return (self.data / NAME).exists()

    @property
    def catalogue(self) -> Catalogue:
        """To read from, by any thread."""
        if not self._exists():
            raise NothingIndexedError(
                f"There is no knowledge base in {self.folder} yet. Make one with: surefind sync FOLDER."
            )
        with self._lock:
            self._catalogue = self._catalogue or Catalogue(self.data, readonly=True)
            return self._catalogue

    def reader(self, layout: Layout | None = None) -> Reader:
        """The current generation, opened. Where another process has committed a newer one, that is opened in the
        background, and the next call gets it; `refresh` waits for it."""
        with self._explaining():
            return self._current(layout).get()

    def refresh(self) -> None:
        """See what was committed until now."""
        with self._explaining():
            for current in list(self._currents.values()):
                try:
                    current.refresh()
                except NotBuiltError:  # a layout that the new generation is not cut in: its next reader is told
                    current.drop()

    def _current(self, layout: Layout | None) -> Current:
        spec = str(layout or self.settings.layout)
        known = self._currents.get(spec)
        if known is None:
            with self._lock:
                required = self.retrievers() if spec == str(self.settings.layout) else []
                opening = Opening(
                    self.catalogue, LocalBackend(self.catalogue), spec, self.services, self.settings.access, required
                )
                known = self._currents.setdefault(spec, Current(self.catalogue.generation, opening.open))
        return known

    def has_cut(self, layout: Layout | None) -> bool:
        """Whether the current generation can be read in this layout."""
        spec = str(layout or self.settings.layout)
        try:
            return LocalBackend(self.catalogue).has(self.catalogue.contents(), spec)
        except (NothingIndexedError, OlderStoreError):
            return False

    def missing(self, retrievers: Iterable[Retriever], layout: Layout | None = None) -> list[Retriever]:
        """Of these retrievers, those that cannot search the current generation yet."""
        wanted = list(retrievers)
        try:
            return self._current(layout).refresh().missing(wanted)
        except (NotBuiltError, OlderStoreError):
            return wanted

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
        access: Access,
        k: int | None = None,
        pipeline: str | Pipeline | None = None,
        offset: int = 0,
    ) -> SearchResult:
        """The k best passages after the first `offset`, of what `access` admits. Filters and access groups are applied
        before anything is ranked. A pipeline whose indexes are not there is an error: `build` makes them."""
        k = self.settings.k if k is None else k
        check_query(query, k, offset)
        with self._explaining():
            return self.reader().search(query, access, self.pipeline(pipeline), k, offset)

    def documents(self, access: Access) -> list[Document]:
        """Every document of the current generation that the caller may read, in order of id."""
        return self.reader().documents(access)

    def index_sizes(self, layout: Layout | None = None) -> dict[str, int]:
        """Index spec -> bytes on disk, of the current generation."""
        return LocalBackend(self.catalogue).sizes(self.catalogue.contents(), str(layout or self.settings.layout))

    def generations(self) -> list[Generation]:
        """Those that are kept, oldest first."""
        return self.catalogue.generations()

    def drafts(self) -> list[Version]:
        """Versions that wait to be published, newest first."""
        return self.catalogue.versions.in_state(("draft", "in review"), self.catalogue.generations())

    def history(self, document: str) -> list[Version]:
        """The versions of a document that are still here, newest first."""
        return self.catalogue.versions.history(document, self.catalogue.generations())

    def status(self) -> Status:
        """What the knowledge base holds: documents, passages, sources, indexes, skipped files."""
        return status_of(self.folder, self.catalogue, LocalBackend(self.catalogue), self.reader(), self.settings)


def _source(path: str | Path, revision: str = "") -> Path | GitOrigin:
    if str(path).startswith(PREFIX):
        origin = GitOrigin.parse(str(path))
        return GitOrigin.at(origin.url, revision) if revision else origin
    if (address := spelled(str(path))) and not Path(path).exists():
        raise SourceError(f"{str(path)!r} is a URL, not a path. A repository is written {address}.")
    return GitOrigin.at(f"file://{Path(path).expanduser().resolve()}", revision) if revision else Path(path)
