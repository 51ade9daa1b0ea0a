"""What rerankers that look further may ask a pipeline for, within what the caller may read.

A reranker gets passages by id. One that adapts (`slidegar`) asks for the neighbours of a good hit, and one that
searches again (`agentic`) for the rankings of other queries. Both are answered under the access of the search itself,
so that neither the result nor what a model is shown can hold a passage that the caller may not read.
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
    """The part of a pipeline before its rerankers."""

    @property
    def retrieve(self) -> tuple[Retriever, ...]: ...

    @property
    def depth(self) -> int: ...

    def found(
        self, queries: Sequence[Query], depth: int, view: View, services: Services, access: Access
    ) -> Rankings: ...


class Reach:
    """The passages of one search, and the pipeline's retrieval behind them."""

    def __init__(self, pipeline: Retrieving, view: View, services: Services, access: Access) -> None:
        self._pipeline = pipeline
        self._view = view
        self._services = services
        self._access = access

    def __getitem__(self, ids: Sequence[int]) -> list[Chunk]:
        return self._view.chunks(ids, self._access)

    def search(self, queries: Sequence[Query], k: int) -> Rankings:
        """What the pipeline finds for other queries, before any reranking."""
        found = self._pipeline.found(queries, self._pipeline.depth, self._view, self._services, self._access)
        return Rankings(found.ids[:, :k], found.scores[:, :k], found.source, found.signal, found.floor)

    def near(self, ids: Sequence[int], k: int) -> list[list[int]]:
        """For each passage its k nearest others: by its vector where the pipeline has one, else by its own words."""
        retrievers = self._pipeline.retrieve
        retriever = next((r for r in retrievers if r.signal == "dense"), retrievers[0])
        found = self._view.near(retriever, ids, k + 1, self._access)
        rows = [found.row(i)[0].tolist() for i in range(len(ids))]
        return [[other for other in row if other != own][:k] for own, row in zip(ids, rows, strict=True)]
