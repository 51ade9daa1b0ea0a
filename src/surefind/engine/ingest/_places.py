"""Joins the parts of a document and records where in the source each part is."""

from __future__ import annotations

from collections.abc import Iterable

from surefind.base.types import Place

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
