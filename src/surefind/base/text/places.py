"""Finds the location of a passage in its source: `page 3`, `pages 3-4`, `sheet Q2`, or lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from surefind.base.types import Place

_NUMBERED = re.compile(r"(.*?)s? (\d+)(?:-(\d+))?")


def location(places: Sequence[Place], start: int, end: int) -> str:
    """The location of the characters from `start` to `end`; empty if the source has no places."""
    starts = [place.start for place in places]
    first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
    if last < 0:
        return ""
    return _joined(places[max(first, 0)].name, places[last].name)


def line_mark(places: Sequence[Place], at: int) -> Place | None:
    """The last place at or before a character, if it records a line; lines are counted from there."""
    index = bisect_right(places, at, key=lambda place: place.start) - 1
    return places[index] if index >= 0 and places[index].line else None


def line_of(places: Sequence[Place], at: int, text: str, start: int) -> int:
    """The line of the source file at character `at`; 0 if it is not recorded. `text` is the document's text from
    character `start` on, which may not lie after the character's `line_mark`."""
    mark = line_mark(places, at)
    return mark.line + text.count("\n", mark.start - start, at - start) if mark else 0


def _joined(first: str, last: str) -> str:
    if first == last:
        return first
    a, b = _NUMBERED.fullmatch(first), _NUMBERED.fullmatch(last)
    if a and b and a.group(1) == b.group(1):
        return f"{a.group(1)}s {a.group(2)}-{b.group(3) or b.group(2)}"
    return f"{first} to {last}"
