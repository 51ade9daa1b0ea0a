"""Cuts a document into pages of about 1,500 tokens that end with a paragraph.

The pages depend on the text alone, so page 3 stays page 3 whatever size of answer is asked for.
"""

from __future__ import annotations

import re
from typing import Any

from surefind.base.text.tokens import token_spans
from surefind.doors.mcp.answers import quoted, size

PAGE = 1_500
"""The most tokens of a page."""
_ENDS = (re.compile(r"\n[ \t]*\n+"), re.compile(r"\n"), re.compile(r"(?<=[.!?])\s+"))
"""Where a page may end: after a paragraph; if there is none in its second half, after a line, or after a sentence."""


def pages(text: str, most: int = PAGE) -> list[tuple[int, int]]:
    """Returns the (start, end) of each page. The pages together are the whole text; there is at least one."""
    tokens = token_spans(text)
    spans, start, at = [], 0, 0
    while len(tokens) - at > most:
        limit = tokens[at + most][0]
        start, before = _end(text, tokens[at + most // 2][0], limit), start
        spans.append((before, start))
        while tokens[at][0] < start:
            at += 1
    return [*spans, (start, len(text))]


def page_of(spans: list[tuple[int, int]], at: int) -> int:
    """Returns the number of the page that has a character, from 1 on."""
    return next((number for number, (_, end) in enumerate(spans, 1) if at < end), len(spans))


def _end(text: str, least: int, limit: int) -> int:
    for pattern in _ENDS:
        ends = [match.end() for match in pattern.finditer(text, least, limit)]
        if ends:
            return ends[-1]
    return limit


def fitted(head: str, data: dict[str, Any], page: str, max_tokens: int) -> tuple[str, str]:
    """Returns the answer's text and the page's text, which is cut if the whole page is longer than was asked for."""
    note, cut = "", page
    while (tokens := size(text := f"{head}\n{quoted(cut)}{note}", {**data, "text": cut + note})) > max_tokens and cut:
        note = "\n(The page goes on. Raise max_tokens to read all of it.)"
        share = 1 - (tokens - max_tokens) / tokens
        cut = page[: int(len(cut) * min(share, 0.97))]
    return text, cut + note
