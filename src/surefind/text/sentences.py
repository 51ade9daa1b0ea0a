"""Sentence boundaries that survive `31 CFR 1020.320(d)`, `e.g.`, `U.S.`, initials, version numbers and inline code.

A sentence ends at `.`, `!`, `?` or `…` before white space and a letter or digit that may open the next one: a capital,
a digit, or any letter in a text that has no capitals. Stops inside a code span or a link never end one.
"""

from __future__ import annotations

import re
from itertools import pairwise

# Every alternative looks at a character once: a line of a million dots takes no longer than one of letters.
_END = re.compile(
    r"[.!?…؟۔।](?<![.!?…؟۔।]{2})[.!?…؟۔।]*+[\"'”’)\]*_]*+(?=\s)|[。！？]+[」』）]*|`[^`\n]+`|\]\([^()\s]*\)"
)
_OPENS = re.compile(r"\s+[\"'“‘(\[*_`]*[A-Z0-9À-ÞΑ-ΩА-Я]|\s*[^\x00-\u2fff]")
_OPENS_SMALL = re.compile(r"\s+[\"'“‘(\[*_`]*\w|\s*[^\x00-\u2fff]")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|al|approx|incl|excl|ext|no|nos|sec|para|paras|subsec|fig|figs|eq|art|ch|"
    r"vol|pp|eds|dept|inc|ltd|llc|corp|co|bros|mr|mrs|ms|mx|dr|prof|st|jr|sr|gov|gen|rep|sen|hon|sgt|capt|"
    r"(?-i:Pub|Stat|Reg|Fed|Rev|Proc|Supp|Treas|Nr|Abs|Tel)|"
    r"a\.m|p\.m|u\.s|u\.k|e\.u|ph\.d|b\.v|n\.v|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)|\b[A-Za-z]|\d)\.$",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(?:^|\n)\s*\d+\.$")
_CAPITAL = re.compile(r"[A-ZÀ-ÞΑ-ΩА-Я]")


def sentence_spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Spans that tile [start, end): each sentence with the white space behind it."""
    opens = _OPENS if _CAPITAL.search(text, start, end) else _OPENS_SMALL
    cuts = [start]
    for match in _END.finditer(text, start, end):
        at = match.end()
        if match.group()[0] in "`]":
            continue
        if at < end and opens.match(text, at, end) and not _abbreviates(text[max(start, at - 12) : at]):
            cuts.append(at)
    cuts.append(end)
    return [(a, b) for a, b in pairwise(cuts) if a < b]


def _abbreviates(tail: str) -> bool:
    """Whether the stop that ends `tail` belongs to its word. A digit's stop ends a sentence unless it numbers
    a list item (`2. Next`): `in 2024. The` is two sentences."""
    match = _ABBREVIATION.search(tail)
    if not match:
        return False
    return bool(_NUMBERED.search(tail)) if match.group()[0].isdigit() else True
