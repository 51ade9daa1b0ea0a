"""Splits a document into pieces that stay together; structured chunkers build their chunks from them.

Makes chunks from character spans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from surefind.base.text.blocks import Block, Span, structure
from surefind.base.text.words import count_tokens, sentence_spans, token_spans
from surefind.base.types import Chunk, Document


def make_chunk(
    document: Document,
    start: int,
    end: int,
    headings: tuple[str, ...] = (),
    context: str = "",
    parent: tuple[int, int] | None = None,
) -> Chunk:
    """The chunk of a span, without white space at both ends. The span must contain text."""
    start, end = stripped(document.text, start, end)
    return Chunk(document.id, start, end, document.text[start:end], headings, context, parent, document.title)


def stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without the white space at both ends."""
    inside = text[start:end].strip()
    start += text[start:end].index(inside)
    return start, start + len(inside)


Path = tuple[str, ...]
_MAX_HEADER_CHARS = 1000
"""Characters of a table's header row that later rows repeat as context, at most."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text that stays together, with the headings above it."""

    start: int
    end: int
    tokens: int
    path: Path
    opens: bool
    """Whether the piece begins a section."""
    header: str = ""
    """The header row of the table, if the piece is a later row of a table; empty otherwise."""


def pieces(document: Document, limit: int, sentences: bool = False) -> Iterator[Piece]:
    """The blocks of a document, each heading together with the block after it. A block of more than `limit` tokens is
    cut into its parts; with `sentences`, paragraphs are always cut into sentences."""
    text = document.text
    blocks = structure(text, document.format)
    trail: list[tuple[int, str]] = []
    glued: int | None = None
    for i, block in enumerate(blocks):
        if block.level:
            trail = [step for step in trail if step[0] < block.level] + [(block.level, block.title)]
            glued = block.start if glued is None else glued
            following = blocks[i + 1] if i + 1 < len(blocks) else None
            if following is not None and (not following.level or following.level > block.level):
                continue
        path = tuple(title for _, title in trail)
        start = block.start if glued is None else glued
        header = text[slice(*block.parts[0])].strip()[:_MAX_HEADER_CHARS] if block.table else ""
        whole = count_tokens(text[start : block.end])
        if whole <= (0 if sentences and block.prose else limit):
            yield Piece(start, block.end, whole, path, glued is not None)
        else:
            for j, (a, b) in enumerate(_cut(text, start, block, limit)):
                yield Piece(a, b, count_tokens(text[a:b]), path, glued is not None and j == 0, header if j else "")
        glued = None


def groups(parts: Iterable[Piece], limit: int, least: int) -> Iterator[list[Piece]]:
    """Groups consecutive pieces, at most `limit` tokens per group. A new section begins a new group if the current
    group has at least `least` tokens."""
    group: list[Piece] = []
    size = 0
    for piece in parts:
        new_section = piece.opens and size >= least
        if group and (new_section or size + piece.tokens > limit):
            yield group
            group, size = [], 0
        group.append(piece)
        size += piece.tokens
    if group:
        yield group


def joined(group: Sequence[Piece]) -> Piece:
    """Joins consecutive pieces into one."""
    first, last = group[0], group[-1]
    tokens = sum(piece.tokens for piece in group)
    return Piece(first.start, last.end, tokens, common_path(p.path for p in group), first.opens, first.header)


def chunk_of(document: Document, group: Sequence[Piece], start: int | None = None, parent: Span | None = None) -> Chunk:
    """The chunk of consecutive pieces. It begins at `start` if given, else at the first piece."""
    begins = group[0].start if start is None else start
    headings = common_path(piece.path for piece in group)
    return make_chunk(document, begins, group[-1].end, headings, group[0].header, parent)


def common_path(paths: Iterable[Path]) -> Path:
    """The headings that all paths begin with."""
    levels = zip(*paths, strict=False)
    return tuple(level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels))


def _cut(text: str, start: int, block: Block, limit: int) -> list[Span]:
    parts = [(start, block.parts[0][1]), *block.parts[1:]] if block.parts else [(start, block.end)]
    return [window for part in parts for window in _windows(text, *part, limit)]


def _windows(text: str, start: int, end: int, limit: int) -> list[Span]:
    """Cuts a span so that no piece has more than `limit` tokens: between sentences, and inside a sentence that is too
    long."""
    tokens = token_spans(text, start, end)
    if len(tokens) <= limit:
        return [(start, end)]
    sentences = sentence_spans(text, start, end)
    if len(sentences) > 1:
        return [window for sentence in sentences for window in _windows(text, *sentence, limit)]
    cuts = [start, *(tokens[i][0] for i in range(limit, len(tokens), limit)), end]
    return list(pairwise(cuts))
