"""Stages as a third party would write them: found through entry points, checked by `surefind.testing`."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefind.errors import SurefindError
from surefind.protocols import Passages, Progress
from surefind.retrieve.bm25 import BM25
from surefind.services import Services
from surefind.spec import Stage
from surefind.testing import rankings_of
from surefind.types import FloatArray, Query, Rankings


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


@dataclass(frozen=True)
class ToyEmbedder(Stage):
    """Hashed bags of words: instant, and near where words are shared."""

    kind: ClassVar[str] = "embed"
    name: ClassVar[str] = "toy"
    dimension: ClassVar[int] = 64
    fingerprint: ClassVar[str] = "toy:1"

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        vectors = np.full((len(texts), self.dimension), 0.01, np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in words(text):
                row[zlib.crc32(word.encode()) % self.dimension] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@dataclass(frozen=True)
class SharedWords(Stage):
    """Reorders by the number of different words that query and passage share."""

    kind: ClassVar[str] = "rerank"
    name: ClassVar[str] = "shared_words"

    def rerank(
        self, queries: Sequence[Query], rankings: Rankings, passages: Passages, k: int, services: Services
    ) -> Rankings:
        rows = []
        for i, query in enumerate(queries):
            ordinals = rankings.row(i)[0].tolist()
            shared = [len({*words(query.text)} & {*words(chunk.text)}) for chunk in passages[ordinals]]
            best = sorted(zip(ordinals, shared, strict=True), key=lambda pair: (-pair[1], pair[0]))[:k]
            rows.append(([ordinal for ordinal, _ in best], [float(score) for _, score in best]))
        return rankings_of(rows, self.name, "mixed", float("nan"))


@dataclass(frozen=True)
class Failing(Stage):
    kind: ClassVar[str] = "rerank"
    name: ClassVar[str] = "failing"

    def rerank(
        self, queries: Sequence[Query], rankings: Rankings, passages: Passages, k: int, services: Services
    ) -> Rankings:
        raise SurefindError("The model did not answer.")


@dataclass(frozen=True)
class Labelled(BM25):
    """BM25 with a parameter of any text, to try specs on."""

    name: ClassVar[str] = "labelled"
    label: str = ""
