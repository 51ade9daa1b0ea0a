"""`neighbors(tokens=40)`: adds the document's title and first sentence, and the heading and first sentence of the
chunk's section.

The contextual enhancement of the agentic-knowledge-base study (2025, section 3.1.4.1) without a language model:
sentences are copied, not written. A sentence that is in the chunk itself is left out; each is cut to `tokens` tokens.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from surefind.protocols import Services
from surefind.spec import Stage, require
from surefind.text.blocks import Span
from surefind.text.sections import Section, sections
from surefind.text.tokens import token_spans
from surefind.types import Chunk, Document


@dataclass(frozen=True)
class Neighbors(Stage):
    kind: ClassVar[str] = "enrich"
    name: ClassVar[str] = "neighbors"
    text_only: ClassVar[bool] = True

    tokens: int = 40

    def __post_init__(self) -> None:
        require(self.tokens >= 1, self, "tokens must be at least 1")

    def enrich(self, document: Document, chunks: list[Chunk], services: Services) -> list[Chunk]:
        found = sections(document)
        return [replace(chunk, context=self._context(document, found, chunk)) for chunk in chunks]

    def _context(self, document: Document, found: Sequence[Section], chunk: Chunk) -> str:
        section = found[max(0, bisect_right(found, chunk.start, key=lambda section: section.start) - 1)]
        leads = [_lead(found), _lead([section])]
        first, own = (self._sentence(document, lead, chunk) for lead in leads)
        heading = section.title if section.title != document.title else ""
        lines = [chunk.context, document.title, first, heading, own if leads[0] != leads[1] else ""]
        return "\n".join(line for line in lines if line)

    def _sentence(self, document: Document, span: Span | None, chunk: Chunk) -> str:
        if span is None or (chunk.start <= span[0] < chunk.end):
            return ""
        tokens = token_spans(document.text, *span)[: self.tokens]
        return " ".join(document.text[tokens[0][0] : tokens[-1][1]].split()) if tokens else ""


def _lead(found: Sequence[Section]) -> Span | None:
    """The first sentence of running text in these sections."""
    return next((section.sentences[0] for section in found if section.sentences), None)
