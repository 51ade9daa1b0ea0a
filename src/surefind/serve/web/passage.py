"""The text of a passage as a page shows it: the best sentence and the words of the query are marked."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate, pairwise

from surefind.serve.words import pieces
from surefind.types import Hit

_SYNTAX = re.compile(r"(?m)^[ \t]*#{1,6}[ \t]+|^[ \t]*\|[ :|-]+\|[ \t]*\n|\*\*|(?<=\n)[ \t]*\n|\A\s+|(?<!\s)\s+\Z")
"""What a reader of Markdown does not want to see: marks of headings, tables and bold type, empty lines."""


@dataclass(frozen=True)
class Part:
    """A stretch of a hit's text."""

    text: str
    word: bool
    """Whether it is a word of the query."""
    sentence: bool
    """Whether it belongs to the best sentence."""


def parts_of(hit: Hit, words: frozenset[str]) -> list[Part]:
    """Cuts the text of a hit where its best sentence or a word of the query begins or ends."""
    first, last = hit.sentence or (hit.start, hit.start)
    text, (start, end) = _without_syntax(hit.text, (first - hit.start, last - hit.start))
    emphasised = sorted((a, b) for a, b, key in pieces(text, True) if key in words)
    cuts = sorted({0, start, end, len(text), *(at for span in emphasised for at in span)})
    rest = iter(emphasised)
    inside, parts = next(rest, None), []
    for a, b in pairwise(cuts):
        while inside and inside[1] <= a:
            inside = next(rest, None)
        parts.append(Part(text[a:b], bool(inside and inside[0] <= a), start <= a < end))
    return parts


def _without_syntax(text: str, places: tuple[int, ...]) -> tuple[str, list[int]]:
    """Returns the text without the syntax of Markdown, and where these places are in it."""
    removed = [match.span() for match in _SYNTAX.finditer(text)]
    starts = [start for start, _ in removed]
    lost = list(accumulate((end - start for start, end in removed), initial=0))
    kept = pairwise((0, *(at for span in removed for at in span), len(text)))
    shown = "".join(text[a:b] for number, (a, b) in enumerate(kept) if number % 2 == 0)

    def moved(place: int) -> int:
        at = min(max(place, 0), len(text))
        before = bisect_right(starts, at)
        inside = max(0, removed[before - 1][1] - at) if before else 0  # the place is within something removed
        return at - lost[before] + inside

    return shown, [moved(place) for place in places]
