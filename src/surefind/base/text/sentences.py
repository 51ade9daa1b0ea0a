"""Splits text into sentences, without cutting `31 CFR 1020.320(d)`, `e.g.`, `U.S.`, initials, versions or inline code.

A sentence ends at `.`, `!`, `?`, `…` or a stop of another script (`।`, `؟`, `።`; Greek `;`) if white space follows and
then a character that may begin a sentence: a digit, a capital, a letter of a script without capitals, or any letter in
a text that has no capitals. It ends at `。`, `！` and `？` whatever follows. It never ends inside code or a link.
"""

from __future__ import annotations

import re
from itertools import pairwise

# Every alternative reads a character only once, so a line of a million dots takes no longer than one of letters.
_STOP = ".!?…؟۔।॥։።፧។៕။"
_END = re.compile(
    rf"[{_STOP}](?<![{_STOP}]{{2}})[{_STOP}]*+[\"'”’“»)\]*_]*+(?=\s)|;(?<=[\u0370-\u03ff\u1f00-\u1fff]{{2}};)(?=\s)"
    r"|[。！？｡]++[」』）】〉》”’\"')\]*_]*+|`[^`\n]+`|\]\([^()\s]*\)"
)
_ASCII_END = re.compile(r"[.!?](?<![.!?]{2})[.!?]*+[\"')\]*_]*+(?=\s)|`[^`\n]+`|\]\([^()\s]*\)")
"""The same as `_END` for ASCII text, but faster, with fewer alternatives."""
_OPENS = re.compile(r"\s+[\"'“‘«„¿¡(\[*_`]*(\w)|\s*[^\x00-\u2fff]")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|al|approx|incl|excl|ext|no|nos|sec|para|paras|subsec|fig|figs|eq|art|ch|"
    r"vol|pp|eds|dept|inc|ltd|llc|corp|co|bros|mr|mrs|ms|mx|dr|prof|st|jr|sr|gov|gen|rep|sen|hon|sgt|capt|"
    r"(?-i:Pub|Stat|Reg|Fed|Rev|Proc|Supp|Treas|Nr|Abs|Tel)|"
    r"a\.m|p\.m|u\.s|u\.k|e\.u|ph\.d|b\.v|n\.v|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|"
    r"bzw|ggf|evtl|usw|vgl|inkl|zzgl|гг|рис|стр|см|др|им|ул|руб|тыс|млн|млрд)|\b[A-Za-zА-Яа-я]|\d)\.$",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(?:^|\n)[^\S\n]*\d+\.$")
_FULL = frozenset("。！？｡")
"""Stops that need no white space after them and never end an abbreviation."""
_CAPITAL = re.compile(r"[A-ZÀ-ÞΑ-ΩА-Я]")


def sentence_spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The sentences of text[start:end] as spans without gaps: each includes the white space after it."""
    capitals = _CAPITAL.search(text, start, end) is not None
    cuts = [start]
    for match in (_ASCII_END if text.isascii() else _END).finditer(text, start, end):
        at = match.end()
        if match.group()[0] in "`]" or at == end:
            continue
        ends = _opens(text, at, end, capitals) and not _abbreviates(text[max(start, at - 12) : at])
        if ends or match.group()[0] in _FULL:
            cuts.append(at)
    cuts.append(end)
    return [(a, b) for a, b in pairwise(cuts) if a < b]


def _opens(text: str, at: int, end: int, capitals: bool) -> bool:
    """Whether a sentence may begin here. In a text with capitals, none begins with a small letter."""
    first = _OPENS.match(text, at, end)
    return first is not None and not (capitals and first[1] and (first[1].islower() or first[1] == "_"))


def _abbreviates(tail: str) -> bool:
    """Whether the stop at the end of `tail` belongs to an abbreviation or a number. After a digit it ends the sentence
    (`in 2024. The` is two sentences) unless the number begins a list item (`2. Next`)."""
    match = _ABBREVIATION.search(tail)
    if not match:
        return False
    return bool(_NUMBERED.search(tail)) if match.group()[0].isdigit() else True
