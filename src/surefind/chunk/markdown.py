"""`markdown(tokens=250, min_tokens=50)`: sections first, then whole blocks, then parts of a block.

A chunk never crosses a heading unless the section before it is shorter than `min_tokens` (a bare title, a
one-line intro), and never cuts a paragraph, list, table or code fence that fits. A block above `tokens` is cut
at its own joints: list items, table rows, code lines, sentences; only a single part that is still too long is
cut between tokens. Chunks tile the document: nothing is lost, nothing stands twice.

Works on plain text too, whose blocks are its paragraphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import ClassVar

from surefind.chunk._spans import make_chunk
from surefind.services import Services
from surefind.spec import Stage, require
from surefind.text.blocks import Block, Span, blocks, paragraphs
from surefind.text.sentences import sentence_spans
from surefind.text.tokens import count_tokens, token_spans
from surefind.types import Chunk, Document

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A run of text that stays together, with the headings above it."""

    start: int
    end: int
    tokens: int
    path: Path
    opens: bool
    """Whether it begins a section."""


@dataclass(frozen=True)
class Markdown(Stage):
    kind: ClassVar[str] = "chunk"
    name: ClassVar[str] = "markdown"

    tokens: int = 250
    min_tokens: int = 50

    def __post_init__(self) -> None:
        require(self.tokens >= 1, self, "tokens must be at least 1")
        require(0 <= self.min_tokens <= self.tokens, self, "min_tokens must be from 0 to tokens")

    def chunk(self, document: Document, services: Services) -> list[Chunk]:
        found = blocks(document.text) if document.format == "markdown" else paragraphs(document.text)
        return [
            make_chunk(document, group[0].start, group[-1].end, _common(piece.path for piece in group))
            for group in self._groups(_pieces(document.text, found, self.tokens))
        ]

    def _groups(self, pieces: Iterable[_Piece]) -> Iterator[list[_Piece]]:
        group: list[_Piece] = []
        size = 0
        for piece in pieces:
            new_section = piece.opens and size >= self.min_tokens
            if group and (new_section or size + piece.tokens > self.tokens):
                yield group
                group, size = [], 0
            group.append(piece)
            size += piece.tokens
        if group:
            yield group


def _pieces(text: str, found: list[Block], limit: int) -> Iterator[_Piece]:
    """Blocks, each heading glued to what follows it, too long ones cut at their joints."""
    trail: list[tuple[int, str]] = []
    glued: int | None = None
    for i, block in enumerate(found):
        if block.level:
            trail = [step for step in trail if step[0] < block.level] + [(block.level, block.title)]
            glued = block.start if glued is None else glued
            following = found[i + 1] if i + 1 < len(found) else None
            if following is not None and (not following.level or following.level > block.level):
                continue
        path = tuple(title for _, title in trail)
        start = block.start if glued is None else glued
        spans = _cut(text, start, block, limit)
        for j, (a, b) in enumerate(spans):
            yield _Piece(a, b, count_tokens(text[a:b]), path, opens=glued is not None and j == 0)
        glued = None


def _cut(text: str, start: int, block: Block, limit: int) -> list[Span]:
    if count_tokens(text[start : block.end]) <= limit:
        return [(start, block.end)]
    parts = [(start, block.parts[0][1]), *block.parts[1:]] if block.parts else [(start, block.end)]
    return [window for part in parts for window in _windows(text, *part, limit)]


def _windows(text: str, start: int, end: int, limit: int) -> list[Span]:
    """A span cut so that no piece has more than `limit` tokens; at sentences if that is enough."""
    tokens = token_spans(text, start, end)
    if len(tokens) <= limit:
        return [(start, end)]
    sentences = sentence_spans(text, start, end)
    if len(sentences) > 1:
        return [window for sentence in sentences for window in _windows(text, *sentence, limit)]
    cuts = [start, *(tokens[i][0] for i in range(limit, len(tokens), limit)), end]
    return list(pairwise(cuts))


def _common(paths: Iterable[Path]) -> Path:
    """The headings that all of a chunk stands under."""
    levels = zip(*paths, strict=False)
    return tuple(level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels))
