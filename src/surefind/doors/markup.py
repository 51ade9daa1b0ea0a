"""What a reader of a document does not want to see: tags of HTML, comments, and commands of templates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

Span = tuple[int, int]
_MARKUP = re.compile(
    r"</?(?:a|abbr|article|aside|b|blockquote|body|br|button|caption|center|code|col|colgroup|dd|del|details|div|dl|dt|"
    r"em|figcaption|figure|font|footer|form|h[1-6]|head|header|hr|html|i|iframe|img|input|ins|kbd|label|li|link|main|mark|"
    r"meta|nav|object|ol|option|p|picture|pre|q|s|samp|script|section|select|small|source|span|strong|style|sub|summary|"
    r"sup|svg|table|tbody|td|textarea|tfoot|th|thead|time|title|tr|u|ul|var|video)(?=[\s/>])[^<>]{0,1000}>"
    r"|\{%[^{}\n]{0,300}%\}|<%[^<>\n]{0,300}%>",
    re.IGNORECASE,
)
"""Only what HTML knows is a tag: `<namespace>` in a command is a word that the reader needs."""


def markup_spans(text: str) -> list[Span]:
    """Returns where the markup of a text is, in order."""
    spans: list[Span] = []
    for start, end in sorted((*_comments(text), *(match.span() for match in _MARKUP.finditer(text)))):
        if not spans or start >= spans[-1][1]:
            spans.append((start, end))
    return spans


def without_markup(text: str) -> str:
    """Returns a text without its markup."""
    return cut_out(text, markup_spans(text)) if "<" in text or "{%" in text else text


def cut_out(text: str, spans: list[Span]) -> str:
    """Returns a text without some spans of it, which are in order and do not overlap."""
    kept = pairwise((0, *(at for span in spans for at in span), len(text)))
    return "".join(text[a:b] for number, (a, b) in enumerate(kept) if number % 2 == 0)


def _comments(text: str) -> Iterator[Span]:
    start = text.find("<!--")
    while start >= 0 and (end := text.find("-->", start + 4)) >= 0:
        yield start, end + 3
        start = text.find("<!--", end)
