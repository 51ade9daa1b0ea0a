"""`hierarchical(parent=1500, child=250, overlap=0)`: searches small passages and returns larger ones.

    |C_child| <= child,  |C_parent| <= parent,  child < parent,  each child in exactly one parent

(eq. 3 of the agentic-knowledge-base study, 2025). A child is a run of blocks or parts of blocks. A section begins a new
child once the child before it has a fifth of its limit; within a section, a child repeats the last `overlap` tokens of
the child before it. A parent has as many whole sections as fit; a section that is too long for one parent becomes
several, each a run of children. So another parent size needs hardly any new vectors, and with `overlap=0` the children
are the chunks of `markdown`. A ranking of children counts each parent once, at its best child, and goes on until k
different parents are found.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import ClassVar

from surefind.base.protocols import Services
from surefind.base.spec import Stage, require
from surefind.base.text.blocks import Span
from surefind.base.text.words import token_spans
from surefind.base.types import Chunk, Document
from surefind.engine.chunk._pieces import Piece, chunk_of, groups, joined, pieces, stripped


@dataclass(frozen=True)
class Hierarchical(Stage):
    kind: ClassVar[str] = "chunk"
    name: ClassVar[str] = "hierarchical"
    text_only: ClassVar[bool] = True

    parent: int = 1500
    child: int = 250
    overlap: int = 0

    def __post_init__(self) -> None:
        require(1 <= self.child < self.parent, self, "child must be at least 1 and below parent")
        require(0 <= self.overlap < self.child, self, "overlap must be at least 0 and below child")

    def chunk(self, document: Document, services: Services) -> list[Chunk]:
        own = self.child - self.overlap
        children = [joined(group) for group in groups(pieces(document, own), own, self.child // 5)]
        return [chunk for group in self._by_parent(children) for chunk in self._chunks(document, group)]

    def _by_parent(self, children: list[Piece]) -> Iterator[list[Piece]]:
        """Groups the children of each parent."""
        group: list[Piece] = []
        size = 0
        for i, child in enumerate(children):
            # At the start of a section, all of the section must fit, or a new parent begins here.
            section = takewhile(lambda later: not later.opens, _after(children, i)) if child.opens else ()
            if group and size + child.tokens + sum(later.tokens for later in section) > self.parent:
                yield group
                group, size = [], 0
            group.append(child)
            size += child.tokens
        if group:
            yield group

    def _chunks(self, document: Document, group: list[Piece]) -> Iterator[Chunk]:
        """The chunks of the children of one parent."""
        span = stripped(document.text, group[0].start, group[-1].end)
        tokens = token_spans(document.text, *span) if self.overlap else []
        section = span[0]
        for child in group:
            section = child.start if child.opens else section
            yield chunk_of(document, [child], self._start(child.start, section, tokens), span)

    def _start(self, own: int, section: int, tokens: list[Span]) -> int:
        """The start of a child that repeats the last `overlap` tokens before it, but none from before its section."""
        before = bisect_left(tokens, (own, 0))
        return max(section, tokens[max(0, before - self.overlap)][0]) if before else own


def _after(children: list[Piece], i: int) -> Iterator[Piece]:
    """The children after the i-th, without copying the list, which may be very long."""
    return (children[j] for j in range(i + 1, len(children)))
