"""Cuts long texts into pages of lines, so that every page stays small."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from surefind.base.text.blocks import joints
from surefind.kb.drafts.difference import DiffLine

NOWHERE = 0, 0
"""The span of a passage that is not in a text."""
_LINES = 800
"""Lines of a text on one page, at most."""
_CHARACTERS = 80_000
"""Characters of a text on one page, at most; a longer line is cut."""
_MAX_LINE_CHARS = 20_000


@dataclass(frozen=True)
class Sheet:
    """A page of a text."""

    lines: list[tuple[int, str]]
    """Each line with its number."""
    start: int
    """The characters of the text before it."""
    end: int
    whole: bool
    """Whether it begins between two blocks."""
    before: int | None
    """The first line of the page before; None on the first page."""
    after: int | None
    """The first line of the next page; None on the last one."""
    total: int


def sheet(text: str, line: int = 1, first: int = 1) -> Sheet:
    """Returns the page of a text that has this line. Pages begin at the same lines whichever line is asked for, between
    two blocks if one is near. `first` is the number of the first line: a file may have other lines before the text."""
    lines = text.removesuffix("\n").split("\n") if text else []
    ends = list(accumulate((len(one) + 1 for one in lines), initial=0))
    between = frozenset(bisect_left(ends, joint) + 1 for joint in joints(text))
    starts = [1, *_starts(lines, between)]
    at = max((number for number, start in enumerate(starts) if start <= line - first + 1), default=0)
    begin, last = starts[at], starts[at + 1] if at + 1 < len(starts) else len(lines) + 1
    return Sheet(
        [(number + first - 1, lines[number - 1][:_MAX_LINE_CHARS]) for number in range(begin, last)],
        ends[begin - 1],
        min(ends[last - 1], len(text)),
        begin == 1 or begin in between,
        starts[at - 1] + first - 1 if at else None,
        last + first - 1 if at + 1 < len(starts) else None,
        len(lines),
    )


def line_at(text: str, at: int, first: int = 1) -> int:
    """Returns the number of the line that has a character."""
    return first + text.count("\n", 0, at)


def lines_of(text: str, start: int, end: int, first: int = 1) -> tuple[int, int]:
    """Returns the first and the last line of a span; zeros if there is none."""
    return (line_at(text, start, first), line_at(text, max(start, end - 1), first)) if end else NOWHERE


def _starts(lines: Sequence[str], between: Collection[int] = ()) -> Iterable[int]:
    """Yields the first lines of the second page, the third, and so on: the last of `between` that fits, if there is
    one."""
    begin, joint, size, before_joint = 1, 1, 0, 0
    for number, text in enumerate(lines, 1):
        length = min(len(text), _MAX_LINE_CHARS)
        while number > begin and (number - begin >= _LINES or size + length > _CHARACTERS):
            begin, size = (joint, size - before_joint) if joint > begin else (number, 0)
            before_joint = 0
            yield begin
        if number in between:
            joint, before_joint = number, size
        size += length


@dataclass(frozen=True)
class DiffPage:
    """A page of a difference."""

    lines: Sequence[DiffLine]
    number: int
    """From 1."""
    count: int
    """How many pages the difference has."""
    more: int
    """Lines after the last page that were not compared."""


def part_of(lines: Sequence[DiffLine], more: int, number: int = 1, line: int | None = None) -> DiffPage:
    """Returns a page of a difference after which `more` lines were not compared: the page that has a `line` of the
    second text, or else the one with this number."""
    starts = [0, *(start - 1 for start in _starts([line_shown.text for line_shown in lines]))]
    if line is not None:
        at = next((at for at, line_shown in enumerate(lines) if line_shown.new == line), 0)
        number = sum(start <= at for start in starts)
    number = min(number, len(starts))
    shown = lines[starts[number - 1] : starts[number] if number < len(starts) else None]
    return DiffPage([_cut(line_shown) for line_shown in shown], number, len(starts), more)


def _cut(line: DiffLine) -> DiffLine:
    """Returns a line without what is too long to be shown."""
    if len(line.text) <= _MAX_LINE_CHARS:
        return line
    pieces, room = [], _MAX_LINE_CHARS
    for text, marked in line.pieces:
        pieces.append((text[:room], marked))
        room -= len(text[:room])
    return replace(line, pieces=tuple(pieces))
