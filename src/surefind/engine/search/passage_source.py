"""Gives rerankers passages, neighbours and new searches, limited to what the caller may read.

Every reranker gets passages by id. An adaptive reranker (`slidegar`) asks for the neighbours of a good hit, and one
that searches again (`agentic`) asks for the rankings of other queries. Both requests use the access of the search
itself, so neither the result nor a model's prompt can contain a passage that the caller may not read. `conditional`
asks for the rankings of the retrievers, and for what a calibrated threshold depends on: the stages before it and the
documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from surefind.base.access import Access
from surefind.base.protocols import Retriever, Services
from surefind.base.types import Chunk, Query, Rankings
from surefind.engine.store.backend import View


class Retrieving(Protocol):
    """The stages of a pipeline before its rerankers."""

    @property
    def retrieve(self) -> tuple[Retriever, ...]: ...

    @property
    def depth(self) -> int: ...

    @property
    def path(self) -> str: ...

    def found(
        self, queries: Sequence[Query], depth: int, view: View, services: Services, access: Access
    ) -> Rankings: ...


class PipelinePassages:
    """Implements `PassageSource` and `Sourced` for one search, with its pipeline and its access."""

    def __init__(
        self,
        pipeline: Retrieving,
        view: View,
        services: Services,
        access: Access,
        queries: Sequence[Query] = (),
        rankings: Sequence[Rankings] = (),
    ) -> None:
        """`rankings` are those of the retrievers for `queries`, if they are known."""
        self._pipeline = pipeline
        self._view = view
        self._services = services
        self._access = access
        self._known = tuple(queries), tuple(rankings)

    def __getitem__(self, ids: Sequence[int]) -> list[Chunk]:
        return self._view.chunks(ids, self._access)

    def search(self, queries: Sequence[Query], k: int) -> Rankings:
        """Returns the best k chunks for other queries, before reranking."""
        fused = self._pipeline.found(queries, self._pipeline.depth, self._view, self._services, self._access)
        return Rankings(fused.ids[:, :k], fused.scores[:, :k], fused.source, fused.signal, fused.floor)

    def near(self, ids: Sequence[int], k: int) -> list[list[int]]:
        """Returns the k nearest other passages of each passage, by vectors if the pipeline has a dense retriever, else
        by words."""
        retrievers = self._pipeline.retrieve
        retriever = next((r for r in retrievers if r.signal == "dense"), retrievers[0])
        neighbours = self._view.near(retriever, ids, k + 1, self._access)
        rows = [neighbours.row(i)[0].tolist() for i in range(len(ids))]
        return [[other for other in row if other != own][:k] for own, row in zip(ids, rows, strict=True)]

    @property
    def path(self) -> str:
        """The stages before the rerankers, in the text form of a pipeline."""
        return self._pipeline.path

    @property
    def corpus(self) -> str:
        """The fingerprint of the documents."""
        return self._view.fingerprint

    def retrieved(self, queries: Sequence[Query]) -> list[Rankings]:
        """Returns the rankings of each retriever."""
        known, rankings = self._known
        if rankings and tuple(queries) == known:
            return list(rankings)
        depth = self._pipeline.depth
        return [self._view.search(retriever, queries, depth, self._access) for retriever in self._pipeline.retrieve]
