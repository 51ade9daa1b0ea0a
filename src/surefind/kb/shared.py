"""What the parts of a `KnowledgeBase` share: its folder, its settings, and what is open."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from surefind.base.access import checked_name
from surefind.base.errors import NotBuiltError
from surefind.engine.search.reader import Current
from surefind.engine.services import LocalServices
from surefind.engine.store.backend import Backend
from surefind.engine.store.backends.local import LocalBackend
from surefind.engine.store.catalogue import NAME, Catalogue
from surefind.engine.store.database import closed, explaining
from surefind.engine.store.lock import nothing_yet
from surefind.kb.settings.config import DATA_FOLDER, FILE_NAME, Settings, load_settings

if TYPE_CHECKING:
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
