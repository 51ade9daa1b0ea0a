"""Splits a document into sections: each heading with the text up to the next heading."""

from __future__ import annotations

from dataclasses import dataclass

from surefind.base.text.blocks import Block, Span, structure
from surefind.base.types import Document


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its text. `path` holds the headings above it and its own; `body` is where the text after the
    heading starts."""

    path: tuple[str, ...]
    start: int
    body: int
    end: int
    sentences: tuple[Span, ...] = ()
    """The sentences of the section's paragraphs."""

    @property
    def title(self) -> str:
        return self.path[-1] if self.path else ""


def sections(document: Document) -> list[Section]:
    """The sections of a document, in order; text before the first heading is a section with an empty path."""
    trail: list[tuple[int, str]] = []
    runs: list[tuple[tuple[str, ...], list[Block]]] = []
    for block in structure(document.text, document.format):
        if block.level:
            trail = [step for step in trail if step[0] < block.level] + [(block.level, block.title)]
        if block.level or not runs:
            runs.append((tuple(title for _, title in trail), []))
        runs[-1][1].append(block)
    return [_section(path, run) for path, run in runs]


def _section(path: tuple[str, ...], run: list[Block]) -> Section:
    first, last = run[0], run[-1]
    sentences = tuple(sentence for block in run if block.prose for sentence in block.parts)
    return Section(path, first.start, first.end if first.level else first.start, last.end, sentences)
