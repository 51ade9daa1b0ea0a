"""Stages as a third party would write them: found through entry points, checked by `surefind.testing`."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from surefind.base.errors import SurefindError
from surefind.base.prompts.values import Calls, Completion, Message, Workload
from surefind.base.protocols import Passages, Progress, Services
from surefind.base.running import count_without_model
from surefind.base.spec import Stage
from surefind.base.types import Chunk, Document, FloatArray, Query, Rankings
from surefind.engine.llm.chat import complete_many
from surefind.engine.retrieve.bm25 import BM25
from surefind.testing import rankings_of


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


@dataclass(frozen=True)
class AsksModel(Stage):
    """Puts the passage first that a model names; keeps the order where it does not answer."""

    kind: ClassVar[str] = "rerank"
    name: ClassVar[str] = "asks_model"

    def rerank(
        self, queries: Sequence[Query], rankings: Rankings, passages: Passages, k: int, services: Services
    ) -> Rankings:
        rows = [rankings.row(i)[0].tolist() for i in range(len(queries))]
        prompts = [
            [Message("user", f"{query.text}\n" + "\n".join(f"{i}: {c.text}" for i, c in enumerate(passages[row])))]
            for query, row in zip(queries, rows, strict=True)
        ]
        answers = complete_many(services.chat(), prompts, max_tokens=4)
        count_without_model(sum(not isinstance(a, Completion) for a in answers))
        best = [int(a.text) if isinstance(a, Completion) else 0 for a in answers]
        ordered = [[row[i], *row[:i], *row[i + 1 :]] if row else [] for row, i in zip(rows, best, strict=True)]
        return rankings_of([(row[:k], [-float(i) for i in range(len(row[:k]))]) for row in ordered], self.name)

    def llm_calls(self, work: Workload) -> Calls:
        return Calls("", work.queries, work.queries * 10 * work.chunk_tokens, work.queries * 4)


@dataclass(frozen=True)
class AsksContext(Stage):
    """Has a model write the context of each chunk; goes without where it does not answer."""

    kind: ClassVar[str] = "enrich"
    name: ClassVar[str] = "asks_context"

    def enrich(self, document: Document, chunks: list[Chunk], services: Services) -> list[Chunk]:
        answers = complete_many(services.chat(), [[Message("user", chunk.text)] for chunk in chunks], max_tokens=4)
        return [
            replace(chunk, context=answer.text) if isinstance(answer, Completion) else chunk
            for chunk, answer in zip(chunks, answers, strict=True)
        ]

    def llm_calls(self, work: Workload) -> Calls:
        return Calls("", work.chunks, work.chunks * work.chunk_tokens, work.chunks * 4)
