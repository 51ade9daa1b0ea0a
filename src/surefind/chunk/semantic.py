"""`semantic(threshold=80, buffer=1, max_tokens=800)`: cuts at sections first, then where the meaning changes.

Sections of at most `max_tokens` stay whole. In a longer section, with sentences s_1 … s_n and unit vectors e(·):

    w_i = mean of e(s_{i-buffer}) … e(s_{i+buffer}), of unit length        d_i = 1 - w_i · w_{i+1}

The section is cut after s_i if d_i is above the `threshold`th percentile of its d and the chunk has `min_tokens`, and
also where `max_tokens` would be exceeded (section 3.1.2 and eq. 2 of the agentic-knowledge-base study, 2025). w_i is a
mean of sentence vectors, not the vector of the joined sentences, so that one vector per sentence serves every
threshold, buffer and limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefind.chunk._pieces import Piece, chunk_of, groups, pieces
from surefind.protocols import Services
from surefind.spec import Stage, require
from surefind.text.tokens import token_spans
from surefind.types import Chunk, Document, FloatArray

_TELLING = 32
"""Tokens of a sentence that are embedded, from its start: embedding the rest of long sentences costs time and moves
only one cut in six."""


@dataclass(frozen=True)
class Semantic(Stage):
    kind: ClassVar[str] = "chunk"
    name: ClassVar[str] = "semantic"

    threshold: float = 80.0
    buffer: int = 1
    max_tokens: int = 800
    min_tokens: int = 50
    model: str = "minilm"

    def __post_init__(self) -> None:
        require(0 <= self.threshold <= 100, self, "threshold must be from 0 to 100")
        require(self.buffer >= 0, self, "buffer must be at least 0")
        require(self.max_tokens >= 1, self, "max_tokens must be at least 1")
        require(0 <= self.min_tokens <= self.max_tokens, self, "min_tokens must be from 0 to max_tokens")

    def chunk(self, document: Document, services: Services) -> list[Chunk]:
        found = pieces(document, self.max_tokens, sentences=True)
        sections = list(groups(found, len(document.text) + 1, self.min_tokens))
        long = [section for section in sections if _size(section) > self.max_tokens]
        vectors = self._vectors(document, [piece for section in long for piece in section], services)
        chunks = []
        for section in sections:
            turns: set[int] = set()
            if _size(section) > self.max_tokens:
                own, vectors = vectors[: len(section)], vectors[len(section) :]
                turns = _turns(own, self.threshold, self.buffer)
            chunks += [chunk_of(document, group) for group in self._groups(section, turns)]
        return chunks

    def _vectors(self, document: Document, sentences: Sequence[Piece], services: Services) -> FloatArray:
        """The vectors of all sentences, embedded in one call, so that the encoder can sort them by length and the cache
        is read once."""
        if not sentences:
            return np.zeros((0, 0), np.float32)
        return services.embedder(self.model).embed([_beginning(document, sentence) for sentence in sentences])

    def _groups(self, section: Sequence[Piece], turns: set[int]) -> Iterator[list[Piece]]:
        group: list[Piece] = []
        size = 0
        for i, piece in enumerate(section):
            turned = i - 1 in turns and size >= self.min_tokens and piece.tokens > 0
            if group and (turned or size + piece.tokens > self.max_tokens):
                yield group
                group, size = [], 0
            group.append(piece)
            size += piece.tokens
        if group:
            yield group


def _size(section: Sequence[Piece]) -> int:
    return sum(piece.tokens for piece in section)


def _beginning(document: Document, sentence: Piece) -> str:
    tokens = token_spans(document.text, sentence.start, sentence.end)[:_TELLING]
    return document.text[tokens[0][0] : tokens[-1][1]] if tokens else ""


def _turns(vectors: FloatArray, threshold: float, buffer: int) -> set[int]:
    """The numbers of the sentences after which the meaning changes."""
    if len(vectors) < 2:
        return set()
    sums = np.concatenate([np.zeros((1, vectors.shape[1])), np.cumsum(vectors, axis=0, dtype=np.float64)])
    places = np.arange(len(vectors))
    windows = sums[np.minimum(places + buffer + 1, len(vectors))] - sums[np.maximum(places - buffer, 0)]
    windows /= np.maximum(np.linalg.norm(windows, axis=1, keepdims=True), 1e-12)
    distances = 1 - (windows[:-1] * windows[1:]).sum(axis=1)
    return set(np.flatnonzero(distances > np.percentile(distances, threshold)).tolist())
