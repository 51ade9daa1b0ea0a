"""What the parts of a `KnowledgeBase` share: its folder, its settings, what is open, and how a writer is opened.

The rooms behind a write are imported when it begins, because a process that only searches does not need them.

A gate stands between building a generation and publishing it. It is called with a reader of the current generation and
a reader of the next one, which no search sees yet, and raises an error to refuse the next one. Then the writer deletes
what it has built, and nothing changes for readers. `surefind.lab.bench.gate.ExamGate` is the gate that asks the
standing exam.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from surefind.base.access import checked_name
from surefind.base.errors import NotBuiltError, UsageError
from surefind.engine.search.reader import Current, Opening, Searcher
from surefind.engine.services import LocalServices
from surefind.engine.store.backend import Backend
from surefind.engine.store.backends.local import LocalBackend
from surefind.engine.store.catalogue import NAME, Catalogue
from surefind.engine.store.database import closed, explaining
from surefind.engine.store.lock import nothing_yet
from surefind.engine.write.writer import Writer
from surefind.kb.settings.config import DATA_FOLDER, FILE_NAME, Settings, keep_base, load_settings

if TYPE_CHECKING:
    from surefind.base.protocols import OnProgress
    from surefind.engine.write.layout import Layout
    from surefind.engine.write.preparing import FilePreparer
    from surefind.kb.drafts.store import DraftStore


class Shared:
    """The settings, the services and the open files of one knowledge base. `KnowledgeBase` makes it, for its parts."""

    def __init__(self, folder: Path, once: bool, author: str) -> None:
        self.folder = folder
        self.data = folder / DATA_FOLDER
        self._author = checked_name(author, "person") if author else ""
        self._once = once
        self.settings = load_settings(folder / FILE_NAME)
        self.services = self._services(self.settings)
        self.lock = RLock()
        self._catalogue: Catalogue | None = None
        self._drafts: DraftStore | None = None
        self._closed = False
        self.currents: dict[str, Current] = {}
        """The current reader of each layout."""

    @property
    def author(self) -> str:
        """Who changes the knowledge base."""
        from surefind.engine.write.writer import this_user

        return self._author or this_user()

    @property
    def exists(self) -> bool:
        """Whether something was written to the knowledge base."""
        return (self.data / NAME).exists()

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue, opened read-only. Any thread may use it."""
        if not self.exists:
            raise nothing_yet(self.data, f"There is no knowledge base in {self.folder} yet.")
        with self.lock:
            self.check_open()
            self._catalogue = self._catalogue or Catalogue(self.data, readonly=True)
            return self._catalogue

    @property
    def drafts(self) -> DraftStore:
        """What is kept of drafts. Any thread may use it."""
        from surefind.kb.drafts.store import DraftStore

        with self.lock:
            self.check_open()
            if self._drafts is None:
                self._drafts = DraftStore(self.data, self.settings.drafts.approvals)
            return self._drafts

    @property
    def backend(self) -> Backend:
        """The backend of the settings, on the catalogue."""
        return self.backend_on(self.catalogue, self.settings.isolated, self._once)

    def backend_on(self, catalogue: Catalogue, isolated: bool, once: bool = False) -> Backend:
        """The backend of the settings, on a catalogue. Both kinds keep their tables in the same folder."""
        store = self.settings.store
        if store.backend == "local":
            return LocalBackend(catalogue, isolated, once)
        from surefind.engine.store.backends.milvus.backend import MilvusBackend
        from surefind.engine.store.backends.milvus.server import server_of

        server = server_of(store.uri, store.token_env, catalogue.path.parent.parent)
        return MilvusBackend(catalogue, server, isolated, once)

    def use(self, settings: Settings) -> None:
        """Replaces the settings, and the services if other language models are set. Readers are opened again."""
        with self.lock:
            if settings.llm != self.settings.llm:
                self.services = self._services(settings)
            self.settings = settings
            if self._drafts:
                self._drafts.needed = settings.drafts.approvals
            self.currents = {}  # their readers know the earlier access rules

    def refresh(self) -> None:
        """Opens the newest generation in every layout that was read."""
        with explaining(self.data):
            for current in list(self.currents.values()):
                try:
                    current.refresh()
                except NotBuiltError:  # the new generation is not cut in this layout; its next reader gets the error
                    current.drop()

    def forget(self) -> None:
        """Deletes the data folder, which has nothing that was ever published."""
        with self.lock:
            if self._catalogue:
                self._catalogue.close()
            self._catalogue, self.currents = None, {}
        shutil.rmtree(self.data, ignore_errors=True)

    def check_open(self) -> None:
        """Raises `ClosedError` after the knowledge base was closed."""
        if self._closed:
            raise closed(self.data)

    def close(self) -> None:
        """Closes the readers, the services, the catalogue and the file of drafts."""
        with self.lock:
            self._closed = True
            opened = [*self.currents.values(), self._catalogue, self._drafts]
            self.currents = {}
            self._catalogue = self._drafts = None
        self.services.close()
        for resource in opened:
            if resource:
                resource.close()

    def _services(self, settings: Settings) -> LocalServices:
        own = self.data / "cache", self.data / "models", settings.llm, self.folder / "prompts"
        return LocalServices(*own, self.folder.resolve())


class Writers:
    """Opens writers, one at a time. The next search sees what they have committed."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    @contextlib.contextmanager
    def open(
        self,
        layout: Layout | None = None,
        report: OnProgress | None = None,
        gate: Gate | None = None,
        ray: str = "",
        trial: bool = False,
    ) -> Iterator[Writer]:
        """Opens a writer. A `trial` commits nothing, and its readers count words over what a caller may read, whatever
        the settings say: a backend elsewhere cannot."""
        from surefind.engine.store.database import explaining
        from surefind.engine.write.writer import Writer

        shared, settings = self._shared, self._shared.settings
        shared.check_open()
        if settings.auto and not shared.exists and not trial:
            keep_base(shared.data, settings.base)
        admit = admission(gate, settings) if gate else None
        isolated = settings.isolated or (trial and settings.store.backend == "local")
        writer = Writer(
            shared.data, layout or settings.layout, shared.services, self._reading(ray), settings.files, settings.keep,
            report, admit, partial(shared.backend_on, isolated=isolated), shared.author,
        )  # fmt: skip
        with explaining(shared.data), writer:
            yield writer
        if not trial:
            shared.refresh()

    def change(
        self, report: OnProgress | None = None, gate: Gate | None = None
    ) -> contextlib.AbstractContextManager[Writer]:
        """Opens a writer; raises `NothingIndexedError` if there is no knowledge base yet."""
        _ = self._shared.catalogue
        return self.open(report=report, gate=gate)

    def gate(self, given: Gate | None) -> Gate | None:
        """Returns the given gate. Raises `UsageError` if there is none and the settings require one."""
        if given is None and self._shared.settings.gate:
            raise UsageError(
                "surefind.toml says gate = true, and this call has no gate. Pass "
                "gate=surefind.lab.bench.gate.ExamGate(kb), or gate=surefind.kb.shared.always_open to publish without "
                "a check."
            )
        return given

    @property
    def checkpoint(self) -> Path:
        """What a sync on a cluster has prepared, until it is done."""
        return self._shared.data / "cache" / "prepared.db"

    def _reading(self, ray: str) -> FilePreparer:
        from surefind.engine.write.preparing import FilePreparer

        settings = self._shared.settings
        if not ray:
            return FilePreparer(settings.readers, settings.limits, spare=True)
        from surefind.engine.write.cluster import ClusterPreparer

        return ClusterPreparer(settings.readers, settings.limits, ray, self.checkpoint)


Gate = Callable[[Searcher, Searcher], None]


def always_open(before: Searcher, after: Searcher) -> None:
    """Lets every generation pass."""


def admission(gate: Gate, settings: Settings) -> Callable[[Writer, int], None]:
    """Returns the gate as a writer calls it, with the writer and the number of the new set of documents."""

    def admit(writer: Writer, contents: int) -> None:
        current = writer.catalogue.current()
        if current is None or gate is always_open:
            return
        retrievers = settings.named(settings.pipeline).retrieve
        for snapshot in (current.contents, contents):  # the current set lacks an index if the settings have changed
            writer.cut(snapshot)
            writer.build(snapshot, retrievers)
        layout = str(writer.layout)
        opening = Opening(writer.catalogue, writer.backend, layout, writer.services, settings.access, retrievers)
        gate(opening.kept(current.number), opening.unpublished(contents))

    return admit
