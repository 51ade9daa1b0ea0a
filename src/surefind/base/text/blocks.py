"""The block structure of a Markdown text as character spans: headings, paragraphs, lists, tables, code.

Splits a document into sections: each heading with the text up to the next heading.

Finds the location of a passage in its source: `page 3`, `pages 3-4`, `sheet Q2`, or lines.

Links between documents: the path that a link leads to, and the anchor of a heading.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from surefind.base.text.words import sentence_spans
from surefind.base.types import Document, Place

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


_SCHEME = re.compile(r"(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)
_SUFFIX = re.compile(r"(?:\.(?:md|markdown|mdx|html?|erb|rst|txt)){1,4}$", re.IGNORECASE)
_MAX_FOLDERS = 20
"""Folders above a document that may be the root of its site."""
_NOT_SLUG = re.compile(r"[^\w\- ]+")


def linked_path(document: str, target: str) -> str:
    """Resolves a link without its `#anchor`: `../sops/a.md` in `faq/b.md` is `sops/a.md`; without a path it is the
    document itself. Empty for a URL."""
    if not target:
        return document
    if _SCHEME.match(target):
        return ""
    path = target.lstrip("/") if target.startswith("/") else posixpath.join(posixpath.dirname(document), target)
    return posixpath.normpath(path)


def site_paths(document: str, target: str) -> Iterator[str]:
    """Yields the paths that a link in a site's document may mean: beside the document, below each folder above it (a
    site's root is often `docs/` or `content/en/`), and, last, below the document's own address."""
    path = linked_path(document, target)
    if not path:
        return
    yield path
    if not target:
        return
    folder = posixpath.dirname(document)
    for _ in range(_MAX_FOLDERS):
        if not folder:
            break
        yield posixpath.normpath(posixpath.join(folder, target.lstrip("/")))
        folder = posixpath.dirname(folder)
    if not target.startswith("/"):
        yield posixpath.normpath(target)
        yield posixpath.normpath(posixpath.join(without_suffix(document), target))


def without_suffix(path: str) -> str:
    """Returns a path without the endings of a document: a page may be linked as eod.md, eod.html or eod."""
    return _SUFFIX.sub("", path)


def slug(heading: str) -> str:
    """Returns the anchor of a heading, as most programs make it: `Cut-off times` is `cut-off-times`."""
    return _NOT_SLUG.sub("", heading.lower()).strip().replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its text. `path` holds the headings above it and its own; `body` is where the text after the
    heading starts."""

    path: tuple[str, ...]
    start: int
    body: int
    end: int
    sentences: tuple[Span, ...] = ()
    """The sentences of the section's paragraphs."""

    @property
    def title(self) -> str:
        return self.path[-1] if self.path else ""


def sections(document: Document) -> list[Section]:
    """The sections of a document, in order; text before the first heading is a section with an empty path."""
    trail: list[tuple[int, str]] = []
    runs: list[tuple[tuple[str, ...], list[Block]]] = []
    for block in structure(document.text, document.format):
        if block.level:
            trail = [step for step in trail if step[0] < block.level] + [(block.level, block.title)]
        if block.level or not runs:
            runs.append((tuple(title for _, title in trail), []))
        runs[-1][1].append(block)
    return [_section(path, run) for path, run in runs]


def _section(path: tuple[str, ...], run: list[Block]) -> Section:
    first, last = run[0], run[-1]
    sentences = tuple(sentence for block in run if block.prose for sentence in block.parts)
    return Section(path, first.start, first.end if first.level else first.start, last.end, sentences)
