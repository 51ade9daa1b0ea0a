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
from typing import NamedTuple, get_args

from surefind.access import Access
from surefind.errors import (
    CorruptIndexError,
    NotFoundError,
    NothingIndexedError,
    PassageError,
    QueryError,
)
from surefind.protocols import Retriever, Services
from surefind.search.confidence import UNKNOWN, confidence_of
from surefind.search.extent import Extent
from surefind.search.hits import PARENT, hits_of, passage_hit
from surefind.search.pipeline import Pipeline
from surefind.store.backend import View
from surefind.store.catalogue import Catalogue
from surefind.store.facets import Facet
from surefind.store.failures import explaining
from surefind.store.lease import Lease
from surefind.store.rows import About, Generation
from surefind.types import Document, Effort, Hit, Query, SearchResult

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
        self, generation: Generation, catalogue: Catalogue, view: View, services: Services, lease: Lease
    ) -> None:
        self.serial = next(_SERIALS)
        """No other reader of this process has this number; one that was opened later has a higher one."""
        self.generation = generation.number
        self.view = view
        self._catalogue = catalogue
        self._contents = generation.contents
        self._services = services
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
        check_query(query, k, offset, min_confidence, confidence)
        if not len(self.view):
            raise NothingIndexedError("The knowledge base is empty. Fill it with: surefind sync FOLDER.")
        with explaining(self._catalogue.path.parent), self._noticing():
            run = pipeline.run([Query(query)], offset + k, self.view, self._services, access)
            hits = hits_of(query, run, self.view, access, k, offset, extent)
            sure, closest = UNKNOWN, None
            if confidence != "off":
                whole = hits if extent == PARENT and not offset else hits_of(query, run, self.view, access, 1)
                first = next(iter(whole), None)  # the confidence depends neither on which hits are asked for nor on k
                sure = confidence_of(run, Query(query), pipeline, self.view, self._services, access, confidence, first)
                if sure.confidence is not None and sure.confidence < min_confidence:
                    closest, hits = first, ()
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
            confidence_own=sure.own,
            known_words=sure.known_words,
            closest=closest,
        )

    @contextlib.contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
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
                return passage_hit(self.view, int(passage_id, 16), access, extent, query)
            except PassageError:
                raise unknown from None

    def document(self, document_id: str, access: Access) -> tuple[Document, About]:
        """Returns a document with its text, and where it is from."""
        version = dict(self.view.readable(access)).get(document_id)
        if version is None:
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
