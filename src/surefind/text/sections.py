"""A document as sections: each heading with the text up to the next heading."""

from __future__ import annotations

from dataclasses import dataclass, replace

from surefind.text.blocks import Block, Span, blocks, paragraphs
from surefind.types import Document


@dataclass(frozen=True, slots=True)
class Section:
    """`path` are the headings above and including its own; `body` is where the text after the heading starts."""

    path: tuple[str, ...]
    start: int
    body: int
    end: int
    sentences: tuple[Span, ...] = ()
    """The sentences of its paragraphs."""

    @property
    def title(self) -> str:
        return self.path[-1] if self.path else ""


def sections(document: Document) -> list[Section]:
    """In order; text before the first heading is a section with an empty path."""
    found = blocks(document.text) if document.format == "markdown" else paragraphs(document.text)
    trail: list[tuple[int, str]] = []
    made: list[Section] = []
    for block in found:
        if block.level:
            trail = [step for step in trail if step[0] < block.level] + [(block.level, block.title)]
            made.append(Section(tuple(title for _, title in trail), block.start, block.end, block.end))
        elif made:
            last = made[-1]
            made[-1] = replace(last, end=block.end, sentences=last.sentences + _sentences(block))
        else:
            made.append(Section((), block.start, block.start, block.end, _sentences(block)))
    return made


def _sentences(block: Block) -> tuple[Span, ...]:
    return block.parts if block.prose else ()
