"""`sentence_window(window=3)`: searches single sentences and returns each with `window` sentences on either side.

The vectors are precise, and a hit has enough text to read (the small-to-big retrieval of LlamaIndex, 2023). Table rows,
list items and lines of code count as sentences. A window does not leave its section; a short section is joined to the
next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from surefind.base.protocols import Services
from surefind.base.spec import Stage, require
from surefind.base.types import Chunk, Document
from surefind.engine.chunk._pieces import Piece, chunk_of, groups, pieces, stripped

_MAX_TOKENS = 200
"""Tokens of one searched piece, at most; also cuts text without sentences (a block of code, a table)."""
_MIN_TOKENS = 50
"""Tokens of a section, at least; a shorter one is joined to the next."""


@dataclass(frozen=True)
class SentenceWindow(Stage):
    kind: ClassVar[str] = "chunk"
    name: ClassVar[str] = "sentence_window"
    text_only: ClassVar[bool] = True

    window: int = 3

    def __post_init__(self) -> None:
        require(self.window >= 0, self, "window must be at least 0")

    def chunk(self, document: Document, services: Services) -> list[Chunk]:
        parts = pieces(document, _MAX_TOKENS, sentences=True)
        whole = len(document.text) + 1  # no limit: sections alone decide
        return [chunk for section in groups(parts, whole, _MIN_TOKENS) for chunk in self._sentences(document, section)]

    def _sentences(self, document: Document, section: list[Piece]) -> Iterator[Chunk]:
        for i, piece in enumerate(section):
            if not document.text[piece.start : piece.end].strip():
                continue
            around = section[max(0, i - self.window) : i + self.window + 1]
            yield chunk_of(document, [piece], parent=stripped(document.text, around[0].start, around[-1].end))
