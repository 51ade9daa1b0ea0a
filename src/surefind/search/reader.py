"""A reader: one generation, opened. It never changes, threads can share it, and a search never writes or builds.

    reader = kb.reader()
    result = reader.search("CTR filing deadline", Access.public(), pipeline, k=10)

As long as the reader object is in use it holds a lease on its generation, so that no writer deletes the generation.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable

from surefind.access import Access
from surefind.errors import NothingIndexedError, QueryError
from surefind.protocols import Retriever, Services
from surefind.search.hits import hits_of
from surefind.search.pipeline import Pipeline
from surefind.search.sure import sureness
from surefind.store.backend import View
from surefind.store.catalogue import Catalogue
from surefind.store.failures import explaining
from surefind.store.lease import Lease
from surefind.store.rows import Generation
from surefind.types import Document, Query, SearchResult

MAX_QUERY = 10_000
"""The most characters of a query."""
MAX_K = 1_000
"""The most hits that one search may request or skip."""


class Reader:
    """Searches one generation in one layout."""

    def __init__(
        self, generation: Generation, catalogue: Catalogue, view: View, services: Services, lease: Lease
    ) -> None:
        self.generation = generation.number
        self.view = view
        self._catalogue = catalogue
        self._contents = generation.contents
        self._services = services
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
        min_confidence: float = 0.0,
    ) -> SearchResult:
        """Finds the k best passages after the first `offset`, among the documents that `access` admits. k and `offset`
        do not change the ranking. If the probability that the first passage answers the query is below
        `min_confidence`, there are no hits, and the result names the closest passage."""
        check_query(query, k, offset, min_confidence)
        if not len(self.view):
            raise NothingIndexedError("The knowledge base is empty. Fill it with: surefind sync FOLDER.")
        with explaining(self._catalogue.path.parent):
            run = pipeline.run([Query(query)], offset + k, self.view, self._services, access)
            hits = hits_of(run, self.view, access, k, offset)
            first = hits[0] if hits and not offset else None
            sure = sureness(run, Query(query), pipeline, self.view, self._services, access, first)
            closest = None
            if sure.confidence < min_confidence:
                closest = next(iter(hits_of(run, self.view, access, 1)), None)
                hits = ()
        withheld = self.view.withheld(access)
        return SearchResult(
            query,
            hits,
            run.trace,
            str(pipeline),
            withheld,
            self.generation,
            confidence=sure.confidence,
            confidence_from=sure.calibrated,
            known_words=sure.known_words,
            closest=closest,
        )

    def missing(self, retrievers: Iterable[Retriever]) -> list[Retriever]:
        """Returns the retrievers, of these and the ones they use, that have no index of this generation."""
        return self.view.missing(list(retrievers))

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


def check_query(query: str, k: int, offset: int = 0, min_confidence: float = 0.0) -> None:
    """Raises `QueryError` if a query is empty or too long, or if k, offset or min_confidence is out of range."""
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
