"""Tokens for counting: a word, a single punctuation mark, or a single character of Chinese and Japanese.

Independent of any model, so that a chunking means the same whatever embeds it. Scripts without spaces have no words to
count, and a run of characters without end (encoded data) counts once every hundred: a passage's size is bounded.
"""

from __future__ import annotations

import re

_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[^\W{_ALONE}]{{1,100}}|[{_ALONE}]|[^\w\s]")
_WORD = re.compile(r"\S+")


def token_spans(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """The (start, end) of every token."""
    return [m.span() for m in _TOKEN.finditer(text, start, len(text) if end is None else end)]


def word_spans(text: str) -> list[tuple[int, int]]:
    """The (start, end) of every run without white space."""
    return [m.span() for m in _WORD.finditer(text)]


def count_tokens(text: str) -> int:
    return len(_TOKEN.findall(text))
