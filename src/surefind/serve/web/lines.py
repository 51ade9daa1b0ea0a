"""Cuts long texts into pages of lines, so that every page stays small."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from surefind.desk.difference import Line

_LINES = 800
"""Lines of a text on one page, at most."""
_CHARACTERS = 80_000
"""Characters of a text on one page, at most; a longer line is cut."""
_LONGEST = 20_000
"""Characters of one line that are shown."""


@dataclass(frozen=True)
class Sheet:
    """A page of a text."""

    lines: list[tuple[int, str]]
    """Each line with its number, from 1."""
    before: int | None
    """The first line of the page before; None on the first page."""
    after: int | None
    """The first line of the next page; None on the last one."""
    total: int


def sheet(text: str, line: int = 1) -> Sheet:
    """Returns the page of a text that has this line. Pages begin at the same lines whichever line is asked for."""
    lines = text.splitlines()
    starts = [1, *_starts(lines)]
    at = max((number for number, start in enumerate(starts) if start <= line), default=0)
    first, last = starts[at], starts[at + 1] if at + 1 < len(starts) else len(lines) + 1
    shown = [(number, lines[number - 1][:_LONGEST]) for number in range(first, min(last, len(lines) + 1))]
    return Sheet(shown, starts[at - 1] if at else None, last if at + 1 < len(starts) else None, len(lines))


def _starts(lines: Sequence[str]) -> Iterable[int]:
    """Yields the first lines of the second page, the third, and so on."""
    count = size = 0
    for number, text in enumerate(lines, 1):
        length = min(len(text), _LONGEST)
        if count and (count == _LINES or size + length > _CHARACTERS):
            yield number
            count = size = 0
        count, size = count + 1, size + length


@dataclass(frozen=True)
class Part:
    """A page of a difference."""

    lines: Sequence[Line]
    number: int
    """From 1."""
    count: int
    """How many pages the difference has."""
    more: int
    """Lines after the last page that were not compared."""


def part_of(lines: Sequence[Line], more: int, number: int = 1, line: int | None = None) -> Part:
    """Returns a page of a difference after which `more` lines were not compared: the page that has a `line` of the
    second text, or else the one with this number."""
    starts = [0, *(start - 1 for start in _starts([one.text for one in lines]))]
    if line is not None:
        at = next((at for at, one in enumerate(lines) if one.new == line), 0)
        number = sum(start <= at for start in starts)
    number = min(number, len(starts))
    shown = lines[starts[number - 1] : starts[number] if number < len(starts) else None]
    return Part([_cut(one) for one in shown], number, len(starts), more)


def _cut(line: Line) -> Line:
    """Returns a line without what is too long to be shown."""
    if len(line.text) <= _LONGEST:
        return line
    pieces, room = [], _LONGEST
    for text, marked in line.pieces:
        pieces.append((text[:room], marked))
        room -= len(text[:room])
    return replace(line, pieces=tuple(pieces))
