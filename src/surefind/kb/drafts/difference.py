"""The difference of two texts by lines, with the changed words marked.

Lines are matched by Myers' algorithm (An O(ND) Difference Algorithm and Its Variations, 1986), which takes time in
proportion to the length times the number of changes. `difflib` takes cubic time on texts that repeat lines. Beyond
`MAX_CHANGES` changes only lines that occur once in both texts are matched. The words of changed lines are matched in
the same way. A difference takes `MAX_STEPS` steps in all: when they are used up, the lines that are left are matched by
those that occur once, and their words are not marked. So any two texts take a bounded time.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from surefind.base.running import check_stopped

MAX_CHARS = 2_000_000
"""Characters of a text that `changed_lines` compares."""
MAX_LINES = 50_000
"""Lines of a text that `changed_lines` compares."""
MAX_CHANGES = 400
"""Changes up to which the shortest difference is searched for."""
MAX_STEPS = 600_000
"""Comparisons of lines or words in one difference: about half a second."""
_WORDS = 400
"""Words of a line up to which its changed words are marked."""
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
Kind = Literal["same", "gone", "new", "skipped"]
_MARKS = {"same": " ", "gone": "-", "new": "+"}
Pieces = tuple[tuple[str, bool], ...]
Match = tuple[int, int, int]
"""Where equal runs begin in the first and in the second sequence, and how long they are."""


@dataclass
class _Steps:
    """The comparisons that a difference may still make."""

    left: int


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a difference."""

    kind: Kind
    old: int | None
    """Its number in the first text, from 1."""
    new: int | None
    """Its number in the second text, from 1."""
    pieces: Pieces
    """The text in pieces; True marks words that changed. A skipped line has the number of lines that it stands for."""

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.pieces)


def changed_lines(before: str, after: str) -> tuple[list[DiffLine], int]:
    """Returns the difference of two texts, and how many lines of the second one were not compared: the difference of
    very long texts would take more time and memory than a server has to spare."""
    old, new = (text[:MAX_CHARS].splitlines()[:MAX_LINES] for text in (before, after))
    return difference("\n".join(old), "\n".join(new)), len(after.splitlines()) - len(new)


def difference(before: str, after: str, context: int | None = 3) -> list[DiffLine]:
    """Compares two texts. Unchanged lines further than `context` lines from a change are skipped; None skips none."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[DiffLine] = []
    at_old = at_new = 0
    steps = _Steps(MAX_STEPS)
    for start_old, start_new, size in [*matches(old, new, steps), (len(old), len(new), 0)]:
        lines += _changed(old, new, range(at_old, start_old), range(at_new, start_new), steps)
        lines += [_same(old[start_old + i], start_old + i, start_new + i) for i in range(size)]
        at_old, at_new = start_old + size, start_new + size
    return lines if context is None else list(_hunks(lines, context))


def unified(before: str, after: str, names: tuple[str, str]) -> list[str]:
    """Compares two texts. Returns the lines that differ, as `diff -u` writes them; empty if none does."""
    lines = difference(before, after)
    shown = [f"--- {names[0]}", f"+++ {names[1]}"] if lines else []
    for skipped, hunk in groupby(lines, lambda line: line.kind == "skipped"):
        if not skipped:
            part = list(hunk)
            old, new = _range([line.old for line in part]), _range([line.new for line in part])
            shown += [f"@@ -{old} +{new} @@", *(_MARKS[line.kind] + line.text for line in part)]
    return shown


def _range(numbers: Iterable[int | None]) -> str:
    there = [number for number in numbers if number is not None]
    return f"{there[0]},{len(there)}" if there else "0,0"


def matches(old: Sequence[Hashable], new: Sequence[Hashable], steps: _Steps | None = None) -> list[Match]:
    """Returns the equal runs of two sequences, in order."""
    check_stopped()
    head = _shared(old, new)
    tail = _shared(old[head:][::-1], new[head:][::-1])
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    inside = _shortest(middle_old, middle_new, steps or _Steps(MAX_STEPS))
    if inside is None:
        inside = _unique(middle_old, middle_new)
    blocks = [(0, 0, head), *((a + head, b + head, 1) for a, b in inside), (len(old) - tail, len(new) - tail, tail)]
    return _joined(blocks)


def _shared(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Returns how many items two sequences begin with alike."""
    for at, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return at
    return min(len(one), len(other))


def _shortest(old: Sequence[Hashable], new: Sequence[Hashable], steps: _Steps) -> list[tuple[int, int]] | None:
    """Returns the pairs of equal items of the shortest difference; None if it has more than `MAX_CHANGES` changes, or
    if the steps are used up."""
    most = min(len(old) + len(new), MAX_CHANGES)
    furthest = [-1] * (2 * most + 3)  # by the diagonal, from -most - 1 on
    furthest[most + 2] = 0
    trace: list[list[int]] = []
    for changes in range(most + 1):
        trace.append(furthest[most + 1 - changes - 1 : most + 1 + changes + 2])
        steps.left -= 2 * changes + 1
        for k in range(-changes, changes + 1, 2):
            at = most + 1 + k
            down = k == -changes or (k != changes and furthest[at - 1] < furthest[at + 1])
            start = x = furthest[at + 1] if down else furthest[at - 1] + 1
            y = x - k
            end = min(len(old), len(new) + k, x + max(0, steps.left))
            while x < end and old[x] == new[y]:
                x, y = x + 1, y + 1
            steps.left -= x - start
            furthest[at] = x
            if x >= len(old) and y >= len(new):
                return _walked_back(trace, len(old), len(new))
        if steps.left <= 0:
            return None
    return None


def _walked_back(trace: list[list[int]], x: int, y: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for changes in range(len(trace) - 1, -1, -1):
        furthest, k = trace[changes], x - y
        at = k + changes + 1
        down = k == -changes or (k != changes and furthest[at - 1] < furthest[at + 1])
        before_x = furthest[at + 1] if down else furthest[at - 1]
        before_y = before_x - (k + 1 if down else k - 1)
        start_x = before_x if down else before_x + 1
        while x > start_x and x > 0 and y > 0:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = before_x, before_y
    return pairs[::-1]


def _unique(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Returns pairs of items that occur once in both sequences: the longest list that is in order in both."""
    counts_old, counts_new = Counter(old), Counter(new)
    places = {item: at for at, item in enumerate(new) if counts_new[item] == 1}
    pairs = [(at, places[item]) for at, item in enumerate(old) if counts_old[item] == 1 and item in places]
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        at = bisect_left(ends, place)
        ends[at : at + 1], last[at : at + 1] = [place], [number]
        before.append(last[at - 1] if at else -1)
    chain, number = [], last[-1] if last else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]


def _joined(blocks: Sequence[Match]) -> list[Match]:
    """Joins runs that follow each other in both sequences, and leaves out empty ones."""
    joined: list[Match] = []
    for a, b, size in blocks:
        if joined and size and (a, b) == (joined[-1][0] + joined[-1][2], joined[-1][1] + joined[-1][2]):
            joined[-1] = (joined[-1][0], joined[-1][1], joined[-1][2] + size)
        elif size:
            joined.append((a, b, size))
    return joined


def _changed(old: Sequence[str], new: Sequence[str], gone: range, come: range, steps: _Steps) -> list[DiffLine]:
    """Returns the lines that were replaced. Lines at the same place in both blocks are compared by words."""
    first: list[Pieces] = [((old[a], True),) for a in gone]
    second: list[Pieces] = [((new[b], True),) for b in come]
    for at, (a, b) in enumerate(zip(gone, come, strict=False)):
        first[at], second[at] = _words(old[a], new[b], steps)
    return [
        *(DiffLine("gone", a + 1, None, pieces) for a, pieces in zip(gone, first, strict=True)),
        *(DiffLine("new", None, b + 1, pieces) for b, pieces in zip(come, second, strict=True)),
    ]


def _words(old: str, new: str, steps: _Steps) -> tuple[Pieces, Pieces]:
    if steps.left <= 0:
        return ((old, True),), ((new, True),)
    first, second = _WORD.findall(old), _WORD.findall(new)
    if max(len(first), len(second)) > _WORDS:
        return ((old, True),), ((new, True),)
    common = matches(first, second, steps)
    if 2 * sum(len(word) for a, _, size in common for word in first[a : a + size]) < min(len(old), len(new)):
        return ((old, True),), ((new, True),)  # mostly other words: marks between them would only confuse
    return _pieces(first, [(a, size) for a, _, size in common]), _pieces(second, [(b, size) for _, b, size in common])


def _pieces(words: Sequence[str], kept: Sequence[tuple[int, int]]) -> Pieces:
    pieces, at = [], 0
    for start, size in [*kept, (len(words), 0)]:
        pieces += [("".join(words[at:start]), True), ("".join(words[start : start + size]), False)]
        at = start + size
    return tuple(piece for piece in pieces if piece[0])


def _same(text: str, old: int, new: int) -> DiffLine:
    return DiffLine("same", old + 1, new + 1, ((text, False),))


def _hunks(lines: Sequence[DiffLine], context: int) -> Iterator[DiffLine]:
    changed = [at for at, line in enumerate(lines) if line.kind != "same"]
    near = {near for at in changed for near in range(at - context, at + context + 1)}
    skipped = 0
    for at, line in enumerate(lines):
        if at in near:
            if skipped:
                yield DiffLine("skipped", None, None, ((str(skipped), False),))
            skipped = 0
            yield line
        else:
            skipped += 1
    if skipped and changed:
        yield DiffLine("skipped", None, None, ((str(skipped), False),))
