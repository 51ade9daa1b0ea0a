"""Writes rows as Markdown tables whose header is repeated, so that they stay readable when they are cut.

A passage from the middle of a long table says nothing without the names of its columns. The extracted text therefore
repeats them: every chunker keeps them, offsets stay exact, and hits show them. A table too wide for that becomes a
list, row by row, in which every value has its column's name.

Joins the parts of a document and records where in the source each part is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from surefind.base.text.words import count_tokens
from surefind.base.types import Place

TOKENS = 180
"""Maximum tokens of a part of a table, with its header: below the chunkers' usual sizes."""

_RULE = re.compile(r"\|(?:\s*:?-+:?\s*\|)+\s*")
_SPACE = re.compile(r"\s+")
_BAR = re.compile(r"(?<!\\)\|")

Part = tuple[int, int, str]
"""(first row, last row, Markdown); rows are counted from 0, without the header."""


def parts(header: Sequence[str], rows: Iterable[Sequence[str]], tokens: int = TOKENS) -> Iterator[Part]:
    """Cuts a table into parts of at most `tokens`, each with the header. A row that is longer becomes a part alone."""
    names = [_cell(name) for name in header]
    top = f"{_line(names)}\n{_line(['---'] * len(names))}\n"
    size = count_tokens(top)
    if size > tokens // 2:
        yield from ((i, i, _record(names, row)) for i, row in enumerate(rows))
        return
    held: list[str] = []
    used = first = 0
    for i, row in enumerate(rows):
        line = _line([_cell(value) for value in row] + [""] * (len(names) - len(row)))
        cost = count_tokens(line)
        if held and size + used + cost > tokens:
            yield first, i - 1, top + "\n".join(held) + "\n"
            held, used = [], 0
        first = first if held else i
        held.append(line)
        used += cost
    if held or not first:
        yield first, first + max(len(held) - 1, 0), top + "".join(f"{line}\n" for line in held)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(text for _, _, text in parts(header, rows))


def repeat_headers(markdown: str) -> str:
    """Cuts the long tables of a Markdown text into parts that repeat the header."""
    if "\n|" not in markdown and not markdown.startswith("|"):
        return markdown
    lines = markdown.split("\n")
    done: list[str] = []
    i = 0
    while i < len(lines):
        if lines[i].startswith("|") and i + 1 < len(lines) and _RULE.fullmatch(lines[i + 1]):
            end = next((j for j in range(i, len(lines)) if not lines[j].startswith("|")), len(lines))
            done += _cut(lines[i:end])
            i = end
        else:
            done.append(lines[i])
            i += 1
    return "\n".join(done)


def _cut(lines: list[str]) -> list[str]:
    if sum(map(count_tokens, lines)) <= TOKENS:
        return lines
    header, _, *rows = (_BAR.split(line.strip().removeprefix("|").removesuffix("|")) for line in lines)
    return table(header, rows).split("\n")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _record(names: Sequence[str], row: Sequence[str]) -> str:
    pairs = ((name, _cell(value)) for name, value in zip(names, row, strict=False))
    return "".join(f"- {name}: {value}\n" for name, value in pairs if value)


def _cell(value: str) -> str:
    return _BAR.sub(r"\\|", _SPACE.sub(" ", value).strip())


_STEP = 16_384
"""Characters between two places that record a line number, so that finding a line never reads much of a long text."""


def numbered(kind: str, first: int, last: int) -> str:
    """Names a range: `row 7`, or `rows 7-9`."""
    return f"{kind} {first}" if first == last else f"{kind}s {first}-{last}"


def joined(named: Iterable[tuple[str, str]], between: str = "\n") -> tuple[str, tuple[Place, ...]]:
    """Joins (place, text) pairs. Returns the whole text and the offsets at which the places begin. Parts without text
    are left out."""
    pieces: list[str] = []
    places: list[Place] = []
    at = 0
    for name, text in named:
        if not text.strip():
            continue
        if not places or places[-1].name != name:
            places.append(Place(at, name))
        pieces.append(text)
        at += len(text) + len(between)
    return between.join(pieces), tuple(places)


def source_lines(source: str, body: str, text: str | None = None) -> tuple[Place, ...]:
    """Records the lines of a body that is the end of its source file. `text` is what became of it, line by line."""
    line = source.count("\n", 0, len(source) - len(body)) + 1
    text = body if text is None else text
    places = []
    for at in range(0, len(text), _STEP):
        places.append(Place(at, "", line))
        line += text.count("\n", at, at + _STEP)
    return tuple(places)
