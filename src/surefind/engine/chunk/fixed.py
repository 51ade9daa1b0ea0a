"""`fixed(tokens=500, overlap=50, unit=tokens)`: a sliding window.

For a document D of |D| tokens (with `unit=words`, words separated by white space), window w and overlap o:

    C_i = D[i(w-o) : i(w-o)+w]    for i = 0, 1, …, ceil((|D|-w) / (w-o))

Every chunk except the last has exactly w tokens, neighbours share o, no token is lost, and the last chunk always
has new tokens (eq. 1 of the agentic-knowledge-base study, 2025).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Literal

from surefind.base.protocols import Services
from surefind.base.spec import Stage, require
from surefind.base.text.words import token_spans, word_spans
from surefind.base.types import Chunk, Document
from surefind.engine.chunk._pieces import make_chunk


@dataclass(frozen=True)
class Fixed(Stage):
    kind: ClassVar[str] = "chunk"
    name: ClassVar[str] = "fixed"
    text_only: ClassVar[bool] = True

    tokens: int = 500
    overlap: int = 50
    unit: Literal["tokens", "words"] = "tokens"

    def __post_init__(self) -> None:
        require(self.tokens >= 1, self, "tokens must be at least 1")
        require(0 <= self.overlap < self.tokens, self, "overlap must be at least 0 and below tokens")

    def chunk(self, document: Document, services: Services) -> list[Chunk]:
        spans = token_spans(document.text) if self.unit == "tokens" else word_spans(document.text)
        if not spans:
            return []
        step = self.tokens - self.overlap
        last = max(0, ceil((len(spans) - self.tokens) / step))
        windows = (spans[i * step : i * step + self.tokens] for i in range(last + 1))
        return [make_chunk(document, window[0][0], window[-1][1]) for window in windows]
