"""Reads JSON from a model's answer, wherever it is in the text.

Endpoints that can enforce a schema answer with JSON alone. Others wrap it in prose or in a code block, and some write
their reasoning before it.
"""

from __future__ import annotations

import json
import re
from typing import Any

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_TRAILING_COMMA = re.compile(r",(?=\s*[\]}])")
_FENCE = re.compile(r"</?[a-z]{1,12}(?: \d{1,6})?(?: [0-9a-f]{12})?>|```\w{0,20}")
_WORD = re.compile(r"\w+")
_START = re.compile(r'\{(?=\s*+")')
"""The start of an object that is not empty."""
_REPEATED = 8
"""Words from which on a piece of a text is a repetition."""
_SHORT_LETTERS = 3
"""Letters of a word that says little."""
_MAX_READ_CHARS = 100_000
_MAX_FAILURES = 1000
"""Starts that turn out to be no object, at most: each costs a time that grows with the length of the text before it."""


def read_object(text: str) -> dict[str, Any] | None:
    """Returns the last JSON object of an answer that is not inside another one, or None."""
    plain = without_reasoning(text)[:_MAX_READ_CHARS]
    return _last_object(plain) or _last_object(_TRAILING_COMMA.sub("", plain))


def without_reasoning(text: str) -> str:
    """Removes the reasoning that some models write before the answer."""
    return _THOUGHTS.sub("", text).strip()


def unfenced(text: str) -> str:
    """An answer in prose, without reasoning and without lines that it copied from the prompt's fences or that are those
    of a code block."""
    lines = [line for line in without_reasoning(text).splitlines() if not _FENCE.fullmatch(line.strip())]
    return "\n".join(lines).strip()


def same_words(first: str, second: str) -> bool:
    """Whether two texts have the same words, in any order."""
    return sorted(_WORD.findall(first.casefold())) == sorted(_WORD.findall(second.casefold()))


def repeats(text: str, source: str) -> bool:
    """Whether a text is only a piece of another one, word by word; a few words, such as a name, are no repetition."""
    words, others = (f" {' '.join(_WORD.findall(words_of.casefold()))} " for words_of in (text, source))
    return words.count(" ") > _REPEATED and words in others


def shares_words(text: str, other: str) -> bool:
    """Whether two texts have a word of some length in common."""
    first, second = (
        {word for word in _WORD.findall(side.casefold()) if len(word) > _SHORT_LETTERS} for side in (text, other)
    )
    return bool(first & second)


def _last_object(text: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder()
    last_object: dict[str, Any] | None = None
    failures = 0
    start = _START.search(text)
    while start and failures < _MAX_FAILURES:
        try:
            value, end = decoder.raw_decode(text, start.start())
        except RecursionError:  # no real answer nests so deeply, and trying every level would take seconds
            return last_object
        except ValueError:
            end, failures = start.end(), failures + 1
        else:
            last_object = value
        start = _START.search(text, end)
    return last_object
