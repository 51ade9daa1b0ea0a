"""A reader: one generation, opened. It never changes, threads can share it, and a search never writes or builds.

    reader = kb.reader()
    result = reader.search("CTR filing deadline", Access.public(), pipeline, k=10)

As long as the reader object is in use it holds a lease on its generation, so that no writer deletes the generation.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

from surefind.base.abilities import declared
from surefind.base.access import Access
from surefind.base.errors import (
    CorruptIndexError,
    NotBuiltError,
    NotFoundError,
    NothingIndexedError,
    PassageError,
    QueryError,
)
from surefind.base.names import document_name
from surefind.base.protocols import Retriever, Services
from surefind.base.types import Document, Effort, Hit, Query, SearchResult, Waiting
from surefind.engine.search.confidence import UNKNOWN, confidence_of
from surefind.engine.search.hits import PARENT, hits_of, passage_hit
from surefind.engine.search.parents import Extent
from surefind.engine.search.pipeline import Pipeline, Reading, Run, waiting_for, waiting_text
from surefind.engine.store.backend import View
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
    ) -> SearchResult:
        """Finds the k best passages after the first `offset`, among the documents that `access` admits. k, `offset` and
        `extent`, the size of the texts, do not change the ranking. If the probability that the first passage answers
        the query is below `min_confidence`, there are no hits, and the result names the closest passage. `confidence`
        says how that probability is found."""
        return self.find(query, access, pipeline, k, offset, extent).result(min_confidence, confidence)

    def find(
        self, query: str, access: Access, pipeline: Pipeline, k: int = 10, offset: int = 0, extent: Extent = PARENT
    ) -> Findings:
        """Does the part of `search` that does not depend on how sure it should be. Finding that out later searches
        nothing again."""
        check_query(query, k, offset)
        if not len(self.view):
            raise NothingIndexedError("The knowledge base is empty. Fill it with: surefind sync FOLDER.")
        with self.explaining():
            pipeline, waiting = self.ready(pipeline, access)
            reading = self.reading(access)
            run = pipeline.run([Query(query)], offset + k, reading)
            hits = hits_of(query, run, reading, k, offset, extent)
        return Findings(self, query, reading, pipeline, waiting, run, hits, extent == PARENT and not offset)

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
                whole = hits if self.begins else hits_of(self.query, self.run, reading, 1)
                first = next(iter(whole), None)  # the confidence depends neither on which hits are asked for nor on k
                query = Query(self.query)
                sure = confidence_of(self.run, query, self.pipeline, reading, confidence, first)
            if sure.confidence is not None and sure.confidence < min_confidence:
                closest, hits = first, ()
        withheld, generation = reading.view.withheld(reading.access), self.reader.generation
        return SearchResult(
            self.query, hits, self.run.trace, str(self.pipeline), withheld, generation,
            confidence=sure.confidence, confidence_from=sure.calibrated, confidence_own=sure.own,
            known_words=sure.known_words, closest=closest, waiting_for=self.waiting,
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
