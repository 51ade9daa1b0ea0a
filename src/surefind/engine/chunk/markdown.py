"""`markdown(tokens=250, min_tokens=50)`: cuts at sections first, then between blocks, then inside a block.

A chunk never crosses a heading unless the section before it is shorter than `min_tokens` (a bare title, a one-line
intro), and never cuts a paragraph, list, table or code fence that fits. A block of more than `tokens` is cut between
its parts: list items, table rows, lines of code, sentences. Only a single part that is still too long is cut between
tokens. Chunks cover the document: nothing is lost or repeated. A chunk that begins in the middle of a table has the
table's header row as context.

Works on plain text too: its blocks are its paragraphs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefind.base.protocols import Services
from surefind.base.spec import Stage, require
from surefind.base.types import Chunk, Document
from surefind.engine.chunk._pieces import chunk_of, groups, pieces


@dataclass(frozen=True)
class MarkdownChunker(Stage):
    kind: ClassVar[str] = "chunk"
    name: ClassVar[str] = "markdown"
    text_only: ClassVar[bool] = True

    tokens: int = 250
    min_tokens: int = 50

    def __post_init__(self) -> None:
        require(self.tokens >= 1, self, "tokens must be at least 1")
        require(0 <= self.min_tokens <= self.tokens, self, "min_tokens must be from 0 to tokens")

    def chunk(self, document: Document, services: Services) -> list[Chunk]:
        grouped = groups(pieces(document, self.tokens), self.tokens, self.min_tokens)
        return [chunk_of(document, group) for group in grouped]
