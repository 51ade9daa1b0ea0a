"""Sentence boundaries that survive `31 CFR 1020.320(d)`, `e.g.`, `U.S.`, initials and version numbers."""

from __future__ import annotations

import re
from itertools import pairwise

_END = re.compile(r"[.!?…]+[\"'”’)\]*_]*(?=\s)")
_OPENS = re.compile(r"\s+[\"'“‘(\[*_]*[A-Z0-9À-ÞΑ-ΩА-Я]")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|al|approx|incl|ext|no|nos|sec|fig|eq|art|ch|vol|pp|dept|inc|ltd|corp|co|"
    r"mr|mrs|ms|dr|prof|st|jr|sr|gov|gen|rep|sen|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)|\b[A-Za-z]|\d)\.$",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(?:^|\n)\s*\d+\.$")


def sentence_spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Spans that tile [start, end): each sentence with the white space behind it."""
    cuts = [start]
    for match in _END.finditer(text, start, end):
        at = match.end()
        if at < end and _OPENS.match(text, at, end) and not _abbreviates(text[max(start, at - 12) : at]):
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
