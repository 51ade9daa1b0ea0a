"""`neighbors(tokens=40)`: adds the document's title and first sentence, and the heading and first sentence of the
chunk's section.

The contextual enhancement of the agentic-knowledge-base study (2025, section 3.1.4.1) without a language model:
sentences are copied, not written. A sentence that is in the chunk itself is left out; each is cut to `tokens` tokens.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import ClassVar

from surefind.base.protocols import Services
from surefind.base.spec import Stage, require
from surefind.base.text.blocks import Section, Span, sections
from surefind.base.text.words import token_spans
from surefind.base.types import Chunk, Document


@dataclass(frozen=True)
class Neighbors(Stage):
    kind: ClassVar[str] = "enrich"
    name: ClassVar[str] = "neighbors"
    text_only: ClassVar[bool] = True

    tokens: int = 40

    def __post_init__(self) -> None:
        require(self.tokens >= 1, self, "tokens must be at least 1")

    def enrich(self, document: Document, chunks: list[Chunk], services: Services) -> list[Chunk]:
        document_sections = sections(document)
        sentence = cache(partial(self._sentence, document))  # chunks of one section share its first sentence
        context = partial(_context, document, document_sections, _lead(document_sections), sentence)
        return [replace(chunk, context=context(chunk)) for chunk in chunks]

    def _sentence(self, document: Document, span: Span) -> str:
        tokens = token_spans(document.text, *span)[: self.tokens]
        return " ".join(document.text[tokens[0][0] : tokens[-1][1]].split()) if tokens else ""


def _context(
    document: Document,
    document_sections: Sequence[Section],
    first: Span | None,
    sentence: Callable[[Span], str],
    chunk: Chunk,
) -> str:
    section = document_sections[
        max(0, bisect_right(document_sections, chunk.start, key=lambda section: section.start) - 1)
    ]
    own = _lead([section])
    shown = [sentence(lead) if lead and not chunk.start <= lead[0] < chunk.end else "" for lead in (first, own)]
    heading = section.title if section.title != document.title else ""
    lines = [chunk.context, document.title, shown[0], heading, shown[1] if first != own else ""]
    return "\n".join(line for line in lines if line)


def _lead(document_sections: Sequence[Section]) -> Span | None:
    """The first sentence of running text in these sections."""
    return next((section.sentences[0] for section in document_sections if section.sentences), None)
