"""What rerankers that look further may ask a pipeline for, within what the caller may read.

A reranker gets passages by ordinal. One that adapts (`slidegar`) asks for the neighbours of a good hit, and one that
searches again (`agentic`) for the rankings of other queries. Both are answered under the mask of the search itself, so
that neither the result nor what a model is shown can hold a passage that the caller may not read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from surefind import spec
from surefind.protocols import Index, Passages, Priced, Retriever
from surefind.types import BoolArray, Chunk, Query, Rankings

if TYPE_CHECKING:
    from surefind.pipeline import Pipeline
    from surefind.services import Services


class Reach:
    """The passages of one search, and the pipeline's retrieval behind them. Indexes are loaded when first needed."""

    def __init__(
        self,
        pipeline: Pipeline,
        index_of: Callable[[Retriever], Index],
        passages: Passages,
        services: Services,
        allow: BoolArray | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._index_of = index_of
        self._passages = passages
        self._services = services
        self._allow = allow

    def __getitem__(self, ordinals: Sequence[int]) -> list[Chunk]:
        return self._passages[ordinals]

    def search(self, queries: Sequence[Query], k: int) -> Rankings:
        """What the pipeline finds for other queries, before any reranking."""
        return self._pipeline.found(queries, k, self._index_of, self._services, self._allow)

    def near(self, ordinals: Sequence[int], k: int) -> list[list[int]]:
        """For each passage its k nearest others: by its vector where the pipeline has one, else by its own words."""
        retriever = next((r for r in self._pipeline.retrieve if r.signal == "dense"), self._pipeline.retrieve[0])
        retriever = innermost(retriever)
        index: Any = self._index_of(retriever)
        if callable(getattr(index, "near", None)):  # a graph has indexes of that name
            found = index.near(ordinals, k + 1, self._allow)
        else:
            texts = [Query(chunk.searchable) for chunk in self._passages[ordinals]]
            found = index.search(retriever, texts, k + 1, self._allow)
        rows = [found.row(i)[0].tolist() for i in range(len(ordinals))]
        return [[other for other in row if other != own][:k] for own, row in zip(ordinals, rows, strict=True)]


def innermost(retriever: Any) -> Retriever:
    """The retriever that an index was built for: `dense` of `hyde(retriever=dense)`."""
    inner = getattr(retriever, "inner", None)
    found: Retriever = retriever if inner is None else innermost(inner)
    return found


def paid_reader(retriever: Any) -> Priced | None:
    """What asks a language model about every passage while the retriever's index is built, if anything does."""
    name = getattr(innermost(retriever), "extract", None)
    reader = spec.make("extract", name) if isinstance(name, str) else None
    return reader if isinstance(reader, Priced) else None


def offline(retriever: Any) -> Retriever:
    """The innermost one with passages read by rules: what is timed before anybody has agreed to pay."""
    found: Any = innermost(retriever)
    made: Retriever = replace(found, extract="phrases") if paid_reader(found) else found
    return made
