"""Making chunks out of character spans."""

from __future__ import annotations

from surefind.types import Chunk, Document


def make_chunk(document: Document, start: int, end: int, headings: tuple[str, ...] = ()) -> Chunk:
    """The chunk of a span, white space at both ends left out. `start < end` must hold text."""
    text = document.text[start:end]
    stripped = text.strip()
    start += text.index(stripped)
    return Chunk(document.id, start, start + len(stripped), stripped, headings)
