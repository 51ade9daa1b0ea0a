"""A view in which the documents that answer a question do not exist, so that the question has no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from surefind.access import Access
from surefind.protocols import Retriever
from surefind.store.backend import View
from surefind.types import PAD, Query, Rankings


class Without:
    """A `View` whose searches leave out some documents of each query, by the query's id. The rest is the inner view's.

    A passage is left out after the search, so the weights of words are those of all documents."""

    def __init__(self, view: View, gone: Mapping[str, frozenset[str]]) -> None:
        self._view = view
        spans = view.spans()
        numbers = {name: number for number, name in enumerate(spans.names)}
        self._gone = {query: np.array([numbers[d] for d in names if d in numbers]) for query, names in gone.items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def __len__(self) -> int:
        return len(self._view)

    def search(self, retriever: Retriever, queries: Sequence[Query], k: int, access: Access) -> Rankings:
        found = self._view.search(retriever, queries, k, access)
        spans = self._view.spans()
        documents = spans.documents[np.maximum(spans.at(found.ids), 0)]
        hidden = [np.isin(row, self._gone[query.id]) for row, query in zip(documents, queries, strict=True)]
        kept = ~np.array(hidden).reshape(found.ids.shape) & (found.ids != PAD)
        order = np.argsort(~kept, axis=1, kind="stable")
        ids = np.take_along_axis(np.where(kept, found.ids, PAD), order, 1)
        scores = np.take_along_axis(np.where(kept, found.scores, -np.inf), order, 1)
        return replace(found, ids=ids, scores=scores.astype(found.scores.dtype))
