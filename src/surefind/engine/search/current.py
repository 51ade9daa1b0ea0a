"""The current reader of a layout. One assignment replaces it by the reader of the next generation, once that is open.

The next generation is opened in the background, with the indexes and masks that were in use. A request ends on the
reader it began with. A request that may have come more than `BEHIND_SECONDS` after a commit waits for the new
generation: documents may have been withdrawn. If the next generation cannot be opened, searches continue on the current
one, and `problem` says why.

Opens generations for reading: the newest one, an earlier one that is kept, or the next one before it is published.

A reader of a published generation holds a lease on it. The newest generation is warmed up before the first search.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from surefind.base.access import PathRule
from surefind.base.errors import NotBuiltError, SurefindError, UsageError
from surefind.base.protocols import Retriever, Services
from surefind.engine.search.reader import Searcher
from surefind.engine.store import lock
from surefind.engine.store.backend import Backend, Contents, View
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.lock import Lease
from surefind.engine.store.versions import Generation

BEHIND_SECONDS = 5.0
"""The time after the commit of a generation in which requests may still be answered from the one before."""
_RETRY_SECONDS = 2.0
"""The time to wait before trying again to open a generation that could not be opened."""


class _Opened:
    """A reader, and a time at which it was the newest one: a newer generation was committed after it. The two belong
    together. A request that compared its reader with the time of the next one served withdrawn documents."""

    def __init__(self, reader: Searcher, known: float) -> None:
        self.reader = reader
        self.known = known


class Current:
    """Holds the current reader, and replaces it when there is a newer generation."""

    def __init__(self, newest: Callable[[], int], open_newest: Callable[[Searcher | None], Searcher]) -> None:
        """`newest` returns the number of the newest generation; `open_newest` opens it, given the reader before it."""
        self._newest = newest
        self._open = open_newest
        self._current: _Opened | None = None
        self._opening = threading.Lock()
        self._tried, self._again = 0, 0.0
        """The generation that was last opened in the background, and the time from which it may be tried again."""
        self._repaired = 0.0
        """The time from which a reader that found damage may be opened again."""
        self._closed = False
        self._thread: threading.Thread | None = None
        self.problem = ""
        """The reason why the newest generation could not be opened; empty if there was no problem."""

    def get(self) -> Searcher:
        """Returns the reader for a new request. If there is a newer generation, it is opened in the background. The
        request waits for it if that generation may be older than `BEHIND_SECONDS`."""
        current = self._current
        if current is not None and current.reader.damaged and time.monotonic() > self._repaired:
            self._repaired = time.monotonic() + _RETRY_SECONDS
            return self.refresh()  # a sync may have repaired what it could not read
        while current is not None:
            now = time.monotonic()
            newest = self._newest()
            if newest == current.reader.generation:
                current.known = max(current.known, now)
                return current.reader
            self._begin(newest)
            failed = self._tried == newest and self.problem
            if failed or now - current.known <= BEHIND_SECONDS:
                return current.reader
            with self._opening:
                opened = self._current
            if opened is current:
                return current.reader  # the new generation cannot be opened
            current = opened
        return self.refresh()

    def _begin(self, newest: int) -> None:
        """Begins to open the newest generation, unless something is being opened or it failed a moment ago."""
        due = newest != self._tried or time.monotonic() > self._again
        if due and self._opening.acquire(blocking=False):
            if newest != self._tried:
                self.problem = ""
            self._tried, self._again = newest, time.monotonic() + _RETRY_SECONDS
            thread = threading.Thread(target=self._in_background, name="surefind-open", daemon=True)
            thread.start()
            self._thread = thread  # `close` in another thread must not wait for one that has not started

    def refresh(self) -> Searcher:
        """Returns the reader of the newest generation, and opens it first if necessary."""
        with self._opening:
            current, now = self._current, time.monotonic()
            if current is None or current.reader.damaged or current.reader.generation != self._newest():
                current = self._current = _Opened(self._open(current.reader if current else None), now)
                self.problem = ""
            current.known = max(current.known, now)
            return current.reader

    def _in_background(self) -> None:
        now = time.monotonic()
        try:
            current = self._current
            opened = _Opened(self._open(current.reader if current else None), now)
            if not self._closed:
                self._current = opened
            self.problem = ""
        except Exception as error:  # whatever the error, searches continue on the current reader
            self.problem = str(error) if isinstance(error, SurefindError) else f"{type(error).__name__}: {error}"
        finally:
            self._opening.release()

    def drop(self) -> None:
        """Drops the reader; the next request opens a new one."""
        with self._opening:
            self._current = None

    def close(self) -> None:
        """Waits for the background thread and drops the reader."""
        self._closed = True
        thread = self._thread
        if thread is not None:
            thread.join()
        self._current = None


@dataclass(frozen=True)
class Opening:
    """Opens the generations of a knowledge base in one layout."""

    catalogue: Catalogue
    backend: Backend
    layout: str
    services: Services
    rules: Sequence[PathRule]
    required: Sequence[Retriever]
    """The retrievers whose indexes a generation must have before it replaces another."""
    awaited: Sequence[Retriever] = ()
    """The retrievers that a search does without as long as they have no index."""

    def open(self, earlier: Searcher | None) -> Searcher:
        """Opens the newest generation. With an `earlier` reader, opens the same indexes and masks as that one."""
        generation, held = self.catalogue.leased()
        try:
            view = self._view(generation.contents)
            if earlier is not None:
                self._check(view.missing(self.required))
                view.warm(earlier.view, self.required)
        except BaseException:
            held.release()
            raise
        return Searcher(generation, self.catalogue, view, self.services, held, self.awaited)

    def kept(self, number: int) -> Searcher:
        """Opens a generation that is kept. Raises `UsageError` if there is no such generation."""
        self.catalogue.kept(number)
        held = lock.take(self.catalogue.path.parent, number)
        if held is None:
            raise UsageError(f"Generation {number} is being deleted by another process. Choose a later one.")
        try:
            generation = self.catalogue.kept(number)  # a writer may have deleted it before it had a lease
            view = self._view(generation.contents)
            return Searcher(generation, self.catalogue, view, self.services, held, self.awaited)
        except BaseException:
            held.release()
            raise

    def unpublished(self, contents: int) -> Searcher:
        """Opens a set of documents that no generation shows yet, as the generation that it will be. Only the writer may
        do so: no lease protects it."""
        members = self.catalogue.members(contents)
        generation = Generation(self.catalogue.generation() + 1, "", len(members), contents)
        return Searcher(generation, self.catalogue, self._view(contents), self.services, Lease(None))

    def _view(self, contents: int) -> View:
        members = partial(self.catalogue.members, contents)
        shown = Contents(contents, members, self.catalogue.digest(contents))
        return self.backend.open(shown, self.layout, self.services, self.rules)

    def _check(self, missing: Sequence[Retriever]) -> None:
        """Raises `NotBuiltError` if required indexes are missing, so that the current generation is not replaced."""
        if missing:
            listed = ", ".join(sorted({retriever.name for retriever in missing}))
            raise NotBuiltError(f"The newest generation has no index for {listed} yet. Build it with: surefind sync.")
