"""Gives rerankers passages, neighbours and new searches, limited to what the caller may read.

Every reranker gets passages by id. An adaptive reranker (`slidegar`) asks for the neighbours of a good hit, and one
that searches again (`agentic`) asks for the rankings of other queries. Both requests use the access of the search
itself, so neither the result nor a model's prompt can contain a passage that the caller may not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from surefind.access import Access
from surefind.protocols import Retriever
from surefind.store.backend import View
from surefind.types import Chunk, Query, Rankings

if TYPE_CHECKING:
    from surefind.protocols import Services


class Retrieving(Protocol):
    """The stages of a pipeline before its rerankers."""

    @property
    def retrieve(self) -> tuple[Retriever, ...]: ...

    @property
    def depth(self) -> int: ...

    def found(
        self, queries: Sequence[Query], depth: int, view: View, services: Services, access: Access
    ) -> Rankings: ...


class Reach:
    """Implements `Reaching` for one search, with its pipeline and its access."""

    def __init__(self, pipeline: Retrieving, view: View, services: Services, access: Access) -> None:
        self._pipeline = pipeline
        self._view = view
        self._services = services
        self._access = access

    def __getitem__(self, ids: Sequence[int]) -> list[Chunk]:
        return self._view.chunks(ids, self._access)

    def search(self, queries: Sequence[Query], k: int) -> Rankings:
        """Returns the best k chunks for other queries, before reranking."""
        found = self._pipeline.found(queries, self._pipeline.depth, self._view, self._services, self._access)
        return Rankings(found.ids[:, :k], found.scores[:, :k], found.source, found.signal, found.floor)

    def near(self, ids: Sequence[int], k: int) -> list[list[int]]:
        """Returns the k nearest other passages of each passage, by vectors if the pipeline has a dense retriever, else
        by words."""
        retrievers = self._pipeline.retrieve
        retriever = next((r for r in retrievers if r.signal == "dense"), retrievers[0])
        found = self._view.near(retriever, ids, k + 1, self._access)
        rows = [found.row(i)[0].tolist() for i in range(len(ids))]
        return [[other for other in row if other != own][:k] for own, row in zip(ids, rows, strict=True)]
