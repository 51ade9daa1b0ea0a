"""What a reader of a document does not want to see: tags of HTML, comments, commands of templates, marks of Markdown.

`without_markup` removes what a page would never show, and `plain` leaves the words alone: a link is its text, code is
what is inside its marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
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
_CODE = re.compile(r"(?<!`)(`{1,3})(?!`)(.{1,1000}?)(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(
    r"!?\[((?:[^\[\]]|\[[^\[\]]{0,200}\]){0,500})\]"
    r"(?:\([^()\s]{0,1000}(?:\([^()]{0,200}\)[^()\s]{0,500})?(?:\s{1,9}(?:\"[^\"]{0,300}\"|'[^']{0,300}'))?\)"
    r"|\[[^\[\]\n]{0,200}\])"
)
_MARKS = re.compile(
    r"<((?:https?|mailto):[^<>\s]{1,1000})>"  # 1: an address
    r"|\\([!-/:-@\[-`{-~])"  # 2: a sign that was protected
    r"|\[\^[^\]\s]{1,40}\]"  # a footnote
    r"|\{[:#.][^{}\n]{0,200}\}"  # attributes
    r"|(\*{1,3}|~~)(?=\S)|(?<=\S)(\*{1,3}|~~)(?!\w)"
    r"|(?<!\w)_{1,3}(?=\w|[\"'(`])|(?<=[\w.,;:!?\"')`])_{1,3}(?!\w)"
)


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


def plain(text: str) -> str:
    """Returns the words of a paragraph of Markdown on one line. Code stays as it is, without its marks."""
    parts, end = [], 0
    for code in _CODE.finditer(text):
        parts += [_without_marks(text[end : code.start()]), code[2].strip()]
        end = code.end()
    parts.append(_without_marks(text[end:]))
    return " ".join("".join(parts).split())


def _without_marks(text: str) -> str:
    bare = without_markup(text)
    if "[" in bare:
        bare = _LINK.sub(lambda link: link[1], _LINK.sub(lambda link: link[1], bare))  # a picture may be in a link
    return unescape(_MARKS.sub(lambda mark: mark[1] or mark[2] or "", bare))


def _comments(text: str) -> Iterator[Span]:
    start = text.find("<!--")
    while start >= 0 and (end := text.find("-->", start + 4)) >= 0:
        yield start, end + 3
        start = text.find("<!--", end)
