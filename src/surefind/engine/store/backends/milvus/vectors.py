"""The vectors of chunks, as a collection of `bm25` or of `dense` has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from surefind.base.protocols import Retriever, Services
from surefind.engine.store.backends.milvus.server import Vector
from surefind.engine.store.backends.milvus.words import DRIFT, Analysis, SetStatistics


class Making(Protocol):
    """Makes the vectors of a collection."""

    kind: Vector
    words: SetStatistics | None

    @property
    def dimension(self) -> int: ...

    def begin(self, texts: Iterable[str]) -> None:
        """Prepares a new collection of these texts."""

    def extend(self, words: SetStatistics | None, added: Iterable[str], removed: Iterable[str]) -> bool:
        """Prepares to add texts to a collection, of which others were removed. Returns False if the collection must be
        written again."""

    def of(self, texts: Sequence[str]) -> list[Any]:
        """Returns the vectors of texts."""


class WordVectors:
    """The weights of `bm25`."""

    kind: Vector = "sparse"
    dimension = 0

    def __init__(self, retriever: Any) -> None:
        self._retriever = retriever
        self._analysis = Analysis(retriever.analyzer)
        self.words: SetStatistics | None = None

    def begin(self, texts: Iterable[str]) -> None:
        self.words = SetStatistics.of(texts, self._analysis)

    def extend(self, words: SetStatistics | None, added: Iterable[str], removed: Iterable[str]) -> bool:
        self.words = words and words.changed(added, removed, self._analysis)
        return self.words is not None and self.words.drift <= DRIFT

    def of(self, texts: Sequence[str]) -> list[Any]:
        assert self.words is not None
        return [self.words.document(self._retriever, self._analysis.count(text)) for text in texts]


class PointVectors:
    """The vectors of an encoder."""

    kind: Vector = "dense"
    words: SetStatistics | None = None

    def __init__(self, retriever: Any, services: Services) -> None:
        self._embedder = services.embedder(retriever.model)

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def begin(self, texts: Iterable[str]) -> None:
        pass

    def extend(self, words: SetStatistics | None, added: Iterable[str], removed: Iterable[str]) -> bool:
        return True

    def of(self, texts: Sequence[str]) -> list[Any]:
        vectors: list[Any] = self._embedder.embed(texts).tolist()
        return vectors


def making(retriever: Retriever, services: Services) -> Making:
    """Returns what makes the vectors of a retriever."""
    return WordVectors(retriever) if retriever.name == "bm25" else PointVectors(retriever, services)
