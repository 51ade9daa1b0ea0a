"""The block structure of a Markdown text as character spans: headings, paragraphs, lists, tables, code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from surefind.base.text.sentences import sentence_spans

Span = tuple[int, int]
_BLANK_LINES = re.compile(r"\n\s*\n")
_NEWLINE = re.compile(r"\r\n|\n|\r")
_MARKUP = re.compile(r"[*`]+|(?<!\w)_+|(?<!_)_++(?!\w)|\[([^\[\]]*)\]\([^)]{0,500}\)")
_WINDOW = 1_000_000
"""Characters parsed at once; bounds the memory, since the parser needs about a hundred times the size of its input."""
_JOINT = re.compile(r"^ {0,3}(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})(?P<after>.*)|(?<=\n\n)(?=\S)", re.MULTILINE)
_MAX_TITLE_CHARS = 500
"""Characters of a heading that count as its title; bounded, since every passage below the heading repeats it."""


@dataclass(frozen=True, slots=True)
class Block:
    """One top-level block. `parts` are the finer spans into which it is cut if it is too long."""

    start: int
    end: int
    level: int
    """1 to 6 for a heading, 0 otherwise."""
    title: str
    parts: tuple[Span, ...]
    prose: bool = False
    """Whether the block is a paragraph of running text, not a list, table, quotation or code."""
    table: bool = False
    """Whether the block is a table: its first part is the header row, the other parts are its rows."""


@cache
def _parser(definitions: bool) -> Any:
    """The Markdown parser. Without `definitions` it does not look for link definitions, which saves a sixth of the
    time."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table").disable("inline", True)
    return parser if definitions else parser.disable("reference")


@lru_cache(maxsize=1)
def structure(text: str, markup: str) -> tuple[Block, ...]:
    """The blocks of a document's text. The last result is kept: a chunker and an enricher both ask for it."""
    return tuple(blocks(text) if markup == "markdown" else paragraphs(text))


def blocks(text: str) -> list[Block]:
    """The blocks of a text, in order. Together they cover all of it, without gaps or overlaps."""
    parsed = [block for window in _windows(text) for block in _parsed(text, *window)]
    return _tiled(parsed, len(text)) if parsed else paragraphs(text)


def _windows(text: str) -> Iterator[Span]:
    """Splits a long text between blocks."""
    start = 0
    for joint in joints(text) if len(text) > _WINDOW else ():
        if joint - start >= _WINDOW:
            yield start, joint
            start = joint
    yield start, len(text)


def joints(text: str) -> Iterator[int]:
    """Yields where a Markdown text can be cut without parsing it: after blank lines that are outside of code fences."""
    fence = ""
    for joint in _JOINT.finditer(text):
        mark, start = joint["fence"], joint.start()
        if not fence:
            fence = mark or ""
            if text.startswith("\n\n", start - 2) and text[start] != " ":
                yield start
        elif not mark:
            continue
        elif mark.startswith(fence) and not joint["after"].strip():
            fence = ""


def _parsed(text: str, start: int, end: int) -> Iterator[Block]:
    window = text[start:end]
    lines = [start, *(m.end() for m in _NEWLINE.finditer(text, start, end)), end]
    tokens = _parser("]:" in window).parse(window)
    tops = [i for i, t in enumerate(tokens) if t.level == 0 and t.map and t.nesting >= 0]
    for i, j in pairwise([*tops, len(tokens)]):
        block = _block(text, lines, tokens[i:j])
        if text[block.start : block.end].strip():
            yield block


def _tiled(parsed: list[Block], end: int) -> list[Block]:
    """Extends the blocks until they cover the text. The parser returns no blocks for link definitions: they join the
    block before them, or the first block if they come first."""
    starts = [0, *(block.start for block in parsed[1:]), end]
    return [_stretched(block, a, b) for block, (a, b) in zip(parsed, pairwise(starts), strict=True)]


def _stretched(block: Block, start: int, end: int) -> Block:
    if (start, end) == (block.start, block.end):
        return block
    parts = block.parts or ((block.start, block.end),)
    parts = ((start, parts[0][1]), *parts[1:])
    parts = (*parts[:-1], (parts[-1][0], end))
    return Block(start, end, block.level, block.title, () if block.level else parts, block.prose, block.table)


def paragraphs(text: str) -> list[Block]:
    """The blocks of plain text."""
    cuts = [0, *(m.end() for m in _BLANK_LINES.finditer(text)), len(text)]
    spans = [(a, b) for a, b in pairwise(cuts) if text[a:b].strip()]
    return [Block(a, b, 0, "", tuple(sentence_spans(text, a, b)), True) for a, b in spans]


def title_of(heading: str) -> str:
    """The text of a heading without its markup."""
    return _MARKUP.sub(lambda m: m.group(1) or "", heading[:_MAX_TITLE_CHARS]).strip()


def _block(text: str, lines: list[int], tokens: list[Any]) -> Block:
    """The block that these tokens make up."""
    token = tokens[0]
    start, end = lines[token.map[0]], lines[min(token.map[1], len(lines) - 1)]
    if token.type == "heading_open":
        return Block(start, end, int(token.tag[1]), title_of(tokens[1].content), ())
    parts = tuple(_parts(text, lines, tokens, start, end))
    return Block(start, end, 0, "", parts, token.type == "paragraph_open", token.type == "table_open")


def _parts(text: str, lines: list[int], tokens: list[Any], start: int, end: int) -> Iterator[Span]:
    """The parts of a block: list items, table rows, lines of code, or else sentences."""
    kind = tokens[0].type
    if kind in ("bullet_list_open", "ordered_list_open", "table_open"):
        wanted = "tr_open" if kind == "table_open" else "list_item_open"
        depth = 2 if kind == "table_open" else 1
        starts = [lines[token.map[0]] for token in tokens if token.type == wanted and token.level == depth]
        # The first part begins with the block; a table's rule line goes with its header row.
        yield from pairwise([start, *starts[1:], end])
    elif kind in ("fence", "code_block", "html_block"):
        first, last = tokens[0].map
        inside = [at for at in lines[first + 1 : last] if at < end]
        yield from pairwise([start, *inside, end])
    else:
        yield from sentence_spans(text, start, end)
