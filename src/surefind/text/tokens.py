"""Tokens for counting: a word, or a single punctuation mark.

Independent of any model, so that a chunking means the same whatever embeds it.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\w+|[^\w\s]")
_WORD = re.compile(r"\S+")


def token_spans(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """The (start, end) of every token."""
    return [m.span() for m in _TOKEN.finditer(text, start, len(text) if end is None else end)]


def word_spans(text: str) -> list[tuple[int, int]]:
    """The (start, end) of every run without white space."""
    return [m.span() for m in _WORD.finditer(text)]


def count_tokens(text: str) -> int:
    return len(_TOKEN.findall(text))
