"""What chunkers share: counting tokens and making chunks out of character spans."""

from __future__ import annotations

import re

from surefind.types import Chunk, Document

_TOKEN = re.compile(r"\w+|[^\w\s]")


def token_spans(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """The (start, end) of every token: a word, or a single punctuation mark.

    Independent of any model, so that a chunking means the same whatever embeds it. One such token is 1.25
    word pieces of MiniLM on English prose, 1.5 on identifier-dense manuals (docs/concepts.md).
    """
    return [m.span() for m in _TOKEN.finditer(text, start, len(text) if end is None else end)]


def count_tokens(text: str) -> int:
    return len(_TOKEN.findall(text))


def make_chunk(document: Document, start: int, end: int, headings: tuple[str, ...] = ()) -> Chunk:
    """The chunk of a span, white space at both ends left out. `start < end` must hold text."""
    text = document.text[start:end]
    stripped = text.strip()
    start += text.index(stripped)
    return Chunk(document.id, start, start + len(stripped), stripped, headings)
