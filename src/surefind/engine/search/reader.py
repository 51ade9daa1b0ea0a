"""A reader: one generation, opened. It never changes, threads can share it, and a search never writes or builds.

    reader = kb.reader()
    result = reader.search("CTR filing deadline", Access.public(), pipeline, k=10)

As long as the reader object is in use it holds a lease on its generation, so that no writer deletes the generation.
`Opening` opens the newest generation, an earlier one that is kept, or the next one before it is published.

`Current` has the reader of the newest generation. One assignment replaces it by the reader of the next one, once that
is open and warm. The next generation is opened in the background, with the indexes and masks that were in use. A
request ends on the reader it began with. A request that may have come more than `BEHIND_SECONDS` after a commit waits
for the new generation: documents may have been withdrawn. If the next generation cannot be opened, searches continue on
the current one, and `problem` says why.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, get_args

from surefind.base.abilities import declared
from surefind.base.access import Access, PathRule
from surefind.base.errors import (
    CorruptIndexError,
    NotBuiltError,
    NotFoundError,
    NothingIndexedError,
    PassageError,
    QueryError,
    SurefindError,
    UsageError,
)
from surefind.base.names import document_name
from surefind.base.protocols import Retriever, Services
from surefind.base.types import Document, Effort, History, Hit, Query, SearchResult, Waiting
from surefind.engine.search.confidence import UNKNOWN, confidence_of
from surefind.engine.search.history import DEPTH, asked, checked, favouring
from surefind.engine.search.hits import PARENT, Extent, hits_of, passage_hit
from surefind.engine.search.pipeline import Pipeline, Reading, Run, waiting_for, waiting_text
from surefind.engine.store import lock
from surefind.engine.store.backend import Backend, Contents, View
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.database import explaining
from surefind.engine.store.indexes import needed
from surefind.engine.store.lock import Lease
from surefind.engine.store.table import Facet
from surefind.engine.store.versions import About, Generation

_ID = re.compile(r"[0-7][0-9a-f]{15}")
MAX_QUERY = 10_000
"""The most characters of a query."""
MAX_K = 1_000
"""The most hits that one search may request or skip."""


_SERIALS = itertools.count(1)


class RequestedSearch(NamedTuple):
    """The arguments of `Searcher.search`, as a value that can be sent to another process."""

    query: str
    access: Access
    pipeline: Pipeline
    k: int = 10
    offset: int = 0
    extent: Extent = PARENT
    min_confidence: float = 0.0
    confidence: Effort = "quick"
    history: History = ()


class Searcher:
    """Searches one generation in one layout."""

    def __init__(
        self,
        generation: Generation,
        catalogue: Catalogue,
        view: View,
        services: Services,
        lease: Lease,
        awaited: Sequence[Retriever] = (),
    ) -> None:
        """A search does without those of the retrievers in `awaited` that have no index yet."""
        self.serial = next(_SERIALS)
        """No other reader of this process has this number; one that was opened later has a higher one."""
        self.generation = generation.number
        self.view = view
        self._catalogue = catalogue
        self._contents = generation.contents
        self._services = services
        lacking = view.missing(list(awaited)) if awaited else []
        slow = [retriever for retriever in lacking if not declared(retriever).at_once]
        self._awaited = frozenset(retriever.index_spec(services) for retriever in slow)
        """The indexes that are still being built. A reader does not change: the next one has them."""
        self.damaged = False
        """Whether a search found an index damaged. A sync repairs it for readers that are opened later."""
        weakref.finalize(self, lease.release)

    @property
    def fingerprint(self) -> str:
        """A string that is equal for equal documents cut in the same places."""
        return self.view.fingerprint

    @property
    def layout(self) -> str:
        """The text form of the layout."""
        return self.view.layout

    def search(
        self,
        query: str,
        access: Access,
        pipeline: Pipeline,
        k: int = 10,
        offset: int = 0,
        extent: Extent = PARENT,
        min_confidence: float = 0.0,
        confidence: Effort = "quick",
        history: History = (),
    ) -> SearchResult:
        """Finds the k best passages after the first `offset`, among the documents that `access` admits. k, `offset` and
        `extent`, the size of the texts, do not change the ranking. If the probability that the first passage answers
        the query is below `min_confidence`, there are no hits, and the result names the closest passage. `confidence`
        says how that probability is found. With `history`, a question that leans on the one before it is searched with
        that one."""
        return self.find(query, access, pipeline, k, offset, extent, history).result(min_confidence, confidence)

    def find(
        self,
        query: str,
        access: Access,
        pipeline: Pipeline,
        k: int = 10,
        offset: int = 0,
        extent: Extent = PARENT,
        history: History = (),
    ) -> Findings:
        """Does the part of `search` that does not depend on how sure it should be. Finding that out later searches
        nothing again."""
        check_query(query, k, offset)
        if not len(self.view):
            raise NothingIndexedError("The knowledge base is empty. Fill it with: surefind sync FOLDER.")
        with self.explaining():
            pipeline, waiting = self.ready(pipeline, access)
            reading = self.reading(access)
            what = asked(query, checked(history))
            run = pipeline.run([Query(what.text)], max(offset + k, DEPTH if what.favoured else 0), reading)
            if what.favoured:
                run = favouring(run, reading, what.favoured)
            hits = hits_of(what.text, run, reading, k, offset, extent)
        begins = extent == PARENT and not offset
        return Findings(self, query, what.text, reading, pipeline, waiting, run, hits, begins)

    def reading(self, access: Access) -> Reading:
        """Returns what a pipeline reads for a caller."""
        return Reading(self.view, self._services, access)

    def ready(self, pipeline: Pipeline, access: Access) -> tuple[Pipeline, tuple[Waiting, ...]]:
        """Returns the pipeline without the retrievers whose indexes are still being built, and these. Raises
        `NotBuiltError` if none is left."""
        missing = [retriever for retriever in pipeline.retrieve if self._awaits(retriever)] if self._awaited else []
        if not missing:
            return pipeline, ()
        others = [retriever for retriever in pipeline.retrieve if retriever not in missing]
        waiting = waiting_for(missing, others, self._catalogue.path.parent, not self.view.withheld(access))
        if len(missing) == len(pipeline.retrieve):
            raise NotBuiltError(f"{waiting_text(waiting)} Search by words meanwhile, with the pipeline words.")
        return pipeline.without(missing), waiting

    def _awaits(self, retriever: Retriever) -> bool:
        return any(used.index_spec(self._services) in self._awaited for used in needed([retriever], self._services))

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """Explains errors of the disk, and notices damage."""
        try:
            with explaining(self._catalogue.path.parent):
                yield
        except CorruptIndexError:
            self.damaged = True
            raise

    def missing(self, retrievers: Iterable[Retriever]) -> list[Retriever]:
        """Returns the retrievers, of these and the ones they use, that have no index of this generation."""
        return self.view.missing(list(retrievers))

    def passage(self, passage_id: str, access: Access, extent: Extent = PARENT, query: str = "") -> Hit:
        """Returns the passage with the id of an earlier hit; with a query, marks the sentence that fits it best."""
        unknown = NotFoundError(
            f"There is no passage {passage_id!r} among the documents you may read. Take the id from a search; the id "
            "of a passage that was changed or deleted is gone."
        )
        if not _ID.fullmatch(passage_id):
            raise unknown
        with explaining(self._catalogue.path.parent):
            try:
                return passage_hit(self.reading(access), int(passage_id, 16), extent, query)
            except PassageError:
                raise unknown from None

    def document(self, document_id: str, access: Access) -> tuple[Document, About]:
        """Returns a document with its text, and where it is from."""
        version = dict(self.view.readable(access)).get(document_id)
        if version is None:
            document_name(document_id)  # raises if it is another spelling, whatever exists
            raise NotFoundError(
                f"There is no document {document_id!r} among those you may read. Names are as in hits: surefind search."
            )
        with explaining(self._catalogue.path.parent):
            (about,) = self._catalogue.versions.about([version])
            return self._catalogue.versions.document(version), about

    def listed(self, access: Access, below: str = "", start: int = 0, most: int | None = None) -> list[About]:
        """Returns what is known of the documents whose ids begin with `below`, in order of id, from `start` on."""
        versions = [version for document_id, version in self.view.readable(access) if document_id.startswith(below)]
        with explaining(self._catalogue.path.parent):
            return self._catalogue.versions.about(versions[start : None if most is None else start + most])

    def facets(self, access: Access, keys: tuple[str, ...] = ()) -> tuple[Facet, ...]:
        """Returns the metadata keys that the caller can filter by, with the number of documents that have each value
        and pass the filters on the other keys: `keys`, or else those that help."""
        return self.view.facets(access, keys)

    def titles(self, documents: Sequence[tuple[str, int]]) -> dict[str, str]:
        """Returns the titles of documents, given with their versions as `view.readable` lists them, by id."""
        with explaining(self._catalogue.path.parent):
            by_version = self._catalogue.versions.titles([version for _, version in documents])
        return {document_id: by_version.get(version, "") for document_id, version in documents}

    def documents(self, access: Access) -> list[Document]:
        """Returns every document that the caller may read, in order of id."""
        admitted = self.view.admitted(access)
        with explaining(self._catalogue.path.parent):
            members = self._catalogue.members(self._contents)
            return [self._catalogue.versions.document(m.version) for m in members if m.document in admitted]

    def hashes(self) -> dict[str, str]:
        """Returns the hash of each document's content, by document id. For comparing generations."""
        with explaining(self._catalogue.path.parent):
            return {member.document: member.content for member in self._catalogue.members(self._contents)}


@dataclass(frozen=True)
class Findings:
    """What a search has found, before it knows how sure it is."""

    reader: Searcher
    query: str
    searched: str
    """The query, or what was searched instead of it."""
    reading: Reading
    pipeline: Pipeline
    waiting: tuple[Waiting, ...]
    run: Run
    hits: tuple[Hit, ...]
    begins: bool
    """Whether the first hit is the first of all, whole."""

    def result(self, min_confidence: float = 0.0, confidence: Effort = "quick") -> SearchResult:
        """Returns the result, after finding out how sure the search is in this way."""
        check_query(self.query, 1, 0, min_confidence, confidence)
        hits, reading, sure, closest = self.hits, self.reading, UNKNOWN, None
        if confidence != "off":
            with self.reader.explaining():
                whole = hits if self.begins else hits_of(self.searched, self.run, reading, 1)
                first = next(iter(whole), None)  # the confidence depends neither on which hits are asked for nor on k
                query = Query(self.searched)
                sure = confidence_of(self.run, query, self.pipeline, reading, confidence, first)
            if sure.confidence is not None and sure.confidence < min_confidence:
                closest, hits = first, ()
        withheld, generation = reading.view.withheld(reading.access), self.reader.generation
        return SearchResult(
            self.query, hits, self.run.trace, str(self.pipeline), withheld, generation,
            confidence=sure.confidence, confidence_from=sure.calibrated, confidence_own=sure.own,
            known_words=sure.known_words, closest=closest, waiting_for=self.waiting, quotes=sure.quotes,
            searched=self.searched if self.searched != self.query else "",
        )  # fmt: skip


def check_query(query: str, k: int, offset: int = 0, min_confidence: float = 0.0, confidence: Effort = "quick") -> None:
    """Raises `QueryError` if a query is empty or too long, or if another argument is out of range."""
    if not query.strip():
        raise QueryError('The query is empty. Write one, for example: surefind search "CTR filing deadline".')
    if len(query) > MAX_QUERY:
        raise QueryError(
            f"The query has {len(query):,} characters; the limit is {MAX_QUERY:,}. Search for a sentence instead."
        )
    if not 1 <= k <= MAX_K:
        raise QueryError(f"k must be from 1 to {MAX_K:,}, not {k}.")
    if not 0 <= offset <= MAX_K:
        raise QueryError(f"offset must be from 0 to {MAX_K:,}, not {offset}.")
    if not 0 <= min_confidence <= 1:
        raise QueryError(f"min_confidence must be from 0 to 1, not {min_confidence:g}.")
    if confidence not in get_args(Effort):
        raise QueryError(f"confidence must be one of {', '.join(get_args(Effort))}, not {confidence!r}.")
    if min_confidence and confidence == "off":
        raise QueryError(
            "min_confidence needs a confidence: set confidence to read or quick, or leave the minimum out."
        )


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
