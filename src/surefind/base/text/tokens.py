"""Tokens for counting: a word, a single punctuation mark, or a single character of a script without spaces.

Tokens do not depend on a model, so documents are cut in the same way for every encoder. A letter and its marks are
never separated. A very long run of letters (encoded data) counts one token per hundred characters, so that passages
stay bounded in size.
"""

from __future__ import annotations

import re

from surefind.base.text.scripts import CLUSTER, MARKS, UNSPACED, pattern

_ASCII_TOKEN = re.compile(r"\w{1,100}|[^\w\s]")
_LETTERS = rf"[^\W{UNSPACED}]"
_TOKEN = rf"(?:{_LETTERS}{{1,100}}(?:[{MARKS}]{{1,4}}{_LETTERS}{{0,9}}){{0,20}}|{CLUSTER}|[^\w\s])\u200b*"
_WORD = re.compile(r"\S+")


def token_spans(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """The (start, end) of every token."""
    return [m.span() for m in _pattern(text).finditer(text, start, len(text) if end is None else end)]


def word_spans(text: str) -> list[tuple[int, int]]:
    """The (start, end) of every run without white space."""
    return [m.span() for m in _WORD.finditer(text)]


def count_tokens(text: str) -> int:
    return len(_pattern(text).findall(text))


def _pattern(text: str) -> re.Pattern[str]:
    return _ASCII_TOKEN if text.isascii() else pattern(_TOKEN)
