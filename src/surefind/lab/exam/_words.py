"""The words and terms of questions and documents, and Markdown as plain text."""

from __future__ import annotations

import re
from functools import lru_cache

from surefind.engine.analyze.english import English
from surefind.lab.exam._readable import HOLE

_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^)]{0,500}\)")
# Each alternative begins with a character, which is faster.
_MARKUP = re.compile(r"[*`]+|_(?<!\w_)_*|_(?<!__)_*+(?!\w)|<[^>]{1,500}>")
_ANALYZER = English()


def plain(text: str) -> str:
    """Turns Markdown into one line of plain text."""
    return " ".join(_MARKUP.sub("", _LINK.sub(r"\1", text)).split())


def is_prose(text: str) -> bool:
    """Whether the plain text can be a question: no template tag, URL or placeholder is in it, and no table cell."""
    return HOLE not in text and "|" not in text


def words(text: str) -> list[str]:
    return _ANALYZER.tokens(text)


def query_words(text: str) -> list[str]:
    """The words of a question without question words, such as "how" and "do"."""
    return _ANALYZER.query_tokens(text)


def terms(text: str) -> list[str]:
    return [term for token in words(text) for term in of_token(token)]


@lru_cache(maxsize=1 << 16)  # writing an exam analyses the same words again and again
def of_token(token: str) -> tuple[str, ...]:
    return _ANALYZER.terms(token)
