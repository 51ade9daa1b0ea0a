"""The text of a passage as a page shows it: the best sentence and the words of the query are marked."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate, pairwise

from surefind.base.types import Hit
from surefind.doors.markup import cut_out, markup_spans
from surefind.doors.words import pieces
from surefind.engine.search.extent import window

_SYNTAX = re.compile(
    r"(?m)^[ \t]*#{1,6}[ \t]+|^[ \t]*\|[ :|-]+\|[ \t]*\n|^[ \t]*\|[ \t|]*+|^[ \t]*`{3}[^`\n]*\n?|\*{2,3}|`"
    r"|(?<=\n)[ \t]*\n|\A\s+"
    r"|(?<!\s)\s+\Z"
    r"|!?\[(?=[^\[\]\n]{1,200}\]\()|(?<=[^\s\[\]])\]\([^()\s]{0,500}(?:[ \t]\"[^\"\n]{0,200}\")?\)"
)
"""What a reader of Markdown does not want to see: marks of headings, code and bold type, the first marks of a table's
rows (the others stay between its cells), the targets of links, empty lines."""
_ITALIC = re.compile(
    r"(?<![\w*\\])\*(?=[^\s*])[^*\n]{1,200}(?<!\s)\*(?![\w*])|(?<![\w\\])_(?=[^\s_])[^_\n]{1,200}(?<!\s)_(?!\w)"
)
"""Words in italics, with the mark before and the mark after them. A mark alone stays: it is a footnote or a product."""
_SNIPPET_CHARS = 340
"""Characters of a passage that a hit shows: about four lines."""


@dataclass(frozen=True)
class TextSpan:
    """A stretch of a hit's text."""

    text: str
    word: bool
    """Whether it is a word of the query."""
    sentence: bool
    """Whether it belongs to the best sentence."""


def parts_of(hit: Hit, words: frozenset[str], most: int = _SNIPPET_CHARS) -> list[TextSpan]:
    """Cuts the text of a hit to `most` characters, and then where its best sentence or a word of the query begins or
    ends."""
    first, last = hit.sentence or (hit.start, hit.start)
    whole, (start, end) = _without_syntax(hit.text, (first - hit.start, last - hit.start))
    at, until = window(whole, start, end, most)
    text, start, end = whole[at:until], max(0, start - at), max(0, min(end, until) - at)
    emphasised = sorted((a, b) for a, b, key in pieces(text, True) if key in words)
    cuts = sorted({0, start, end, len(text), *(at for span in emphasised for at in span)})
    rest = iter(emphasised)
    inside, parts = next(rest, None), [TextSpan("…\u00a0", False, False)] if at else []
    for a, b in pairwise(cuts):
        while inside and inside[1] <= a:
            inside = next(rest, None)
        parts.append(TextSpan(text[a:b], bool(inside and inside[0] <= a), start <= a < end))
    return [*parts, TextSpan("\u00a0…", False, False)] if until < len(whole) else parts


def plain(text: str) -> str:
    """Returns a text without markup and the syntax of Markdown."""
    return _without_syntax(text, ())[0]


def _without_syntax(text: str, places: tuple[int, ...]) -> tuple[str, list[int]]:
    """Returns the text without markup and the syntax of Markdown, and where these places are in it."""
    removed: list[tuple[int, int]] = []
    syntax = (match.span() for match in _SYNTAX.finditer(text))
    italics = (span for match in _ITALIC.finditer(text) for span in _first_and_last(match.span()))
    for start, end in sorted((*markup_spans(text), *syntax, *italics)):
        begin = max(start, removed[-1][1]) if removed else start
        if begin < end:
            removed.append((begin, end))
    starts = [start for start, _ in removed]
    lost = list(accumulate((end - start for start, end in removed), initial=0))

    def moved(place: int) -> int:
        at = min(max(place, 0), len(text))
        before = bisect_right(starts, at)
        inside = max(0, removed[before - 1][1] - at) if before else 0  # the place is within something removed
        return at - lost[before] + inside

    return cut_out(text, removed), [moved(place) for place in places]


def _first_and_last(span: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    start, end = span
    return (start, start + 1), (end - 1, end)
