"""`semantic(threshold=80, buffer=1, max_tokens=800)`: cuts at sections first, then where the meaning changes.

Sections of at most `max_tokens` stay whole. In a longer section, with sentences s_1 … s_n and unit vectors e(·):

    windows=joined      w_i = e(s_{i-buffer} … s_{i+buffer} as one text)                       d_i = 1 - w_i · w_{i+1}
    windows=averaged    w_i = mean of e(s_{i-buffer}) … e(s_{i+buffer}), of unit length        d_i = 1 - w_i · w_{i+1}

The section is cut after s_i if d_i is above the `threshold`th percentile and the chunk has `min_tokens`, and also where
`max_tokens` would be exceeded (section 3.1.2 and eq. 2 of the agentic-knowledge-base study, 2025).

`joined` is the study's method: the sentences are whole, and the percentile is over the d of the document. `averaged`
embeds the beginning of each sentence, so that one vector per sentence serves every threshold, buffer and limit; the
percentile is over the d of the section. It is faster (docs/results/chunking.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from surefind.base.protocols import Services
from surefind.base.spec import Stage, require
from surefind.base.text.words import token_spans
from surefind.base.types import Chunk, Document, FloatArray, Floats
from surefind.engine.chunk._pieces import Piece, chunk_of, groups, pieces

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
    windows: Literal["joined", "averaged"] = "averaged"

    def __post_init__(self) -> None:
        require(0 <= self.threshold <= 100, self, "threshold must be from 0 to 100")
        require(self.buffer >= 0, self, "buffer must be at least 0")
        require(self.max_tokens >= 1, self, "max_tokens must be at least 1")
        require(0 <= self.min_tokens <= self.max_tokens, self, "min_tokens must be from 0 to max_tokens")

    def chunk(self, document: Document, services: Services) -> list[Chunk]:
        parts = pieces(document, self.max_tokens, sentences=True)
        sections = list(groups(parts, len(document.text) + 1, self.min_tokens))
        long = [section for section in sections if _size(section) > self.max_tokens]
        turns = self._turns(document, sections if self.windows == "joined" and long else long, services)
        chunks = []
        for section in sections:
            cuts = turns if _size(section) > self.max_tokens else set()
            chunks += [chunk_of(document, group) for group in self._groups(section, cuts)]
        return chunks

    def _turns(self, document: Document, sections: Sequence[Sequence[Piece]], services: Services) -> set[int]:
        """The starts of the sentences before which the meaning changes. All texts are embedded in one call, so that the
        encoder can sort them by length and the cache is read once."""
        sentences = [sentence for section in sections for sentence in section]
        if len(sentences) < 2:
            return set()
        if self.windows == "joined":
            texts = _joined(document, sentences, self.buffer)
            return _at(sentences, _above(_distances(services.embedder(self.model).embed(texts)), self.threshold))
        vectors = services.embedder(self.model).embed([_beginning(document, sentence) for sentence in sentences])
        turns: set[int] = set()
        for section in sections:
            own, vectors = vectors[: len(section)], vectors[len(section) :]
            turns |= _at(section, _above(_distances(_averaged(own, self.buffer)), self.threshold))
        return turns

    def _groups(self, section: Sequence[Piece], turns: set[int]) -> Iterator[list[Piece]]:
        group: list[Piece] = []
        size = 0
        for piece in section:
            turned = piece.start in turns and size >= self.min_tokens and piece.tokens > 0
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


def _joined(document: Document, sentences: Sequence[Piece], buffer: int) -> list[str]:
    """Each sentence with `buffer` sentences before and after it, as one text."""
    last = len(sentences) - 1
    edges = ((sentences[max(0, i - buffer)], sentences[min(last, i + buffer)]) for i in range(len(sentences)))
    return [document.text[first.start : final.end].strip() for first, final in edges]


def _averaged(vectors: FloatArray, buffer: int) -> Floats:
    sums = np.concatenate([np.zeros((1, vectors.shape[1])), np.cumsum(vectors, axis=0, dtype=np.float64)])
    places = np.arange(len(vectors))
    windows = sums[np.minimum(places + buffer + 1, len(vectors))] - sums[np.maximum(places - buffer, 0)]
    windows /= np.maximum(np.linalg.norm(windows, axis=1, keepdims=True), 1e-12)
    return np.asarray(windows)


def _distances(windows: FloatArray | Floats) -> Floats:
    return np.asarray(1 - (windows[:-1].astype(np.float64) * windows[1:]).sum(axis=1))


def _above(distances: Floats, threshold: float) -> list[int]:
    """The numbers of the sentences after which the meaning changes."""
    return np.flatnonzero(distances > np.percentile(distances, threshold)).tolist() if len(distances) else []


def _at(sentences: Sequence[Piece], turns: Sequence[int]) -> set[int]:
    return {sentences[i + 1].start for i in turns}
