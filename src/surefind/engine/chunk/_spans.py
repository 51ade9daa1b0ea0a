"""Makes chunks from character spans."""

from __future__ import annotations

from surefind.base.types import Chunk, Document


def make_chunk(
    document: Document,
    start: int,
    end: int,
    headings: tuple[str, ...] = (),
    context: str = "",
    parent: tuple[int, int] | None = None,
) -> Chunk:
    """The chunk of a span, without white space at both ends. The span must contain text."""
    start, end = stripped(document.text, start, end)
    return Chunk(document.id, start, end, document.text[start:end], headings, context, parent, document.title)


def stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without the white space at both ends."""
    inside = text[start:end].strip()
    start += text[start:end].index(inside)
    return start, start + len(inside)
