"""Answers without a language model: the best sentence of each of the first passages, word for word."""

from __future__ import annotations

from surefind.answer.values import Cited
from surefind.types import SearchResult

_MOST = 3
"""Sentences of an answer, at most."""


def quotes(result: SearchResult) -> list[Cited]:
    """Returns the marked sentences of the first hits, each once."""
    found: dict[str, Cited] = {}
    for hit in result.hits[:_MOST]:
        if hit.sentence is not None:
            start, end = hit.sentence
            text = " ".join(hit.text[start - hit.start : end - hit.start].split())
            if text:
                found.setdefault(text, Cited(text, (hit.rank,)))
    return list(found.values())
