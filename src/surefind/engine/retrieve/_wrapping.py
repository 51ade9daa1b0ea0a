"""Base class of retrievers that wrap another retriever: they change the query and share the inner retriever's index.

`hyde(retriever=dense)` and `dense` have the same `index_spec`, so they use one index on disk and in memory. Only the
view that `wrap` puts around it differs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from surefind.base import spec
from surefind.base.protocols import Index, Progress, Retriever, Reuse, Services
from surefind.base.types import PAD, Chunk, FloatArray, IdArray, Mask, Query, Rankings, ScoreArray, Signal
from surefind.engine.llm.listwise import chance_of

Row = tuple[IdArray, ScoreArray]
_HEAD = 10
"""Passages of two rankings that are compared."""
_CHANCE = 0.01
"""Two rankings are related if they share so many passages that chance alone would do so more rarely."""


class Wrapping(ABC):
    """Common code of wrapping retrievers. Their field `retriever` is the spec of the inner retriever."""

    retriever: str

    @property
    def inner(self) -> Retriever:
        return cast(Retriever, spec.make("retrieve", self.retriever))

    @property
    def signal(self) -> Signal:
        return self.inner.signal

    def index_spec(self, services: Services) -> str:
        return self.inner.index_spec(services)

    def build(
        self,
        chunks: Sequence[Chunk],
        services: Services,
        reuse: Reuse | None = None,
        progress: Progress | None = None,
    ) -> Index:
        inside = reuse.index.inner if reuse and isinstance(reuse.index, Wrapped) else reuse.index if reuse else None
        earlier = replace(reuse, index=inside) if reuse and inside else None
        return self.wrap(self.inner.build(chunks, services, earlier, progress), services)

    def load(self, folder: Path, services: Services) -> Index:
        return self.wrap(self.inner.load(folder, services), services)

    @abstractmethod
    def wrap(self, index: Index, services: Services) -> Index:
        """A view of the inner retriever's index that answers as this retriever does."""


class Wrapped:
    """An index as its wrapping retriever sees it."""

    def __init__(self, inner: Index, services: Services) -> None:
        self.inner: Any = inner
        self.services = services

    def __len__(self) -> int:
        return len(self.inner)

    def save(self, folder: Path) -> None:
        self.inner.save(folder)

    def population(self, allow: Mask) -> int:
        """How many chunks a search may find."""
        return len(self) if allow.count is None else allow.count

    def plain(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        """Searches with the inner retriever."""
        rankings: Rankings = self.inner.search(retriever.inner, queries, k, allow)
        return rankings


def padded(rows: Sequence[Row], width: int) -> tuple[IdArray, FloatArray]:
    """Pads rows of different lengths to two matrices."""
    ordinals = np.full((len(rows), width), PAD, np.int64)
    scores = np.full((len(rows), width), -np.inf, np.float32)
    for i, (ids, values) in enumerate(rows):
        ordinals[i, : len(ids)], scores[i, : len(values)] = ids, values
    return ordinals, scores


def related(question: IdArray, other: IdArray, population: int) -> bool:
    """Whether a ranking that a model's words found is about the question: it shares more of its first passages with the
    question's own ranking than chance would. Words that are not, because the model wrote at random or about something
    else, would lead the search away.

        P(shared >= s) = Σ_{i >= s} C(h, i) C(n - h, h - i) / C(n, h) <= 0.01        h: first passages, n: all

    Half of the first passages are enough: among few passages, chance would give as many. If the question finds nothing
    by itself, the model's words cannot lead away.
    """
    first, second = set(question[:_HEAD].tolist()) - {PAD}, set(other[:_HEAD].tolist()) - {PAD}
    if not first:
        return True
    size, drawn = len(first), len(second)
    shared, most = len(first & second), min(size, drawn)
    if not shared or 2 * shared >= most:
        return bool(shared)
    return chance_of(shared, size, drawn, population) <= _CHANCE
