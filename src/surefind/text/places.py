"""Names the location of a passage in its source: `page 3`, `pages 3-4`, `sheet Q2`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from surefind.types import Place

_NUMBERED = re.compile(r"(.*?)s? (\d+)(?:-(\d+))?")


def location(places: Sequence[Place], start: int, end: int) -> str:
    """The location of the characters from `start` to `end`; empty if the source has no places."""
    starts = [place.start for place in places]
    first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
    if last < 0:
        return ""
    return _joined(places[max(first, 0)].name, places[last].name)


def _joined(first: str, last: str) -> str:
    if first == last:
        return first
    a, b = _NUMBERED.fullmatch(first), _NUMBERED.fullmatch(last)
    if a and b and a.group(1) == b.group(1):
        return f"{a.group(1)}s {a.group(2)}-{b.group(3) or b.group(2)}"
    return f"{first} to {last}"
