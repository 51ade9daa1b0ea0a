"""Markdown as HTML that a page can show as it is.

The tags come from a fixed table, and everything else is escaped: a document has no script and no style here, and no
picture but those that its folder has. Links lead to the web, to a mail address or to a document that the visitor may
read. HTML in a document is shown as its words. Long lines of markup and pages that would become very large are shown as
plain text, so that no text takes long.

Cuts long texts into pages of lines, so that every page stays small.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from html import escape
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from markupsafe import Markup

from surefind.base.text.blocks import joints, site_paths, slug, title_of, without_suffix
from surefind.base.text.markup import without_markup
from surefind.base.types import Document
from surefind.kb.drafts.difference import DiffLine

if TYPE_CHECKING:
    from markdown_it.token import Token

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
    starts = [0, *(start - 1 for start in _starts([line.text for line in lines]))]
    if line is not None:
        at = next((at for at, shown_line in enumerate(lines) if shown_line.new == line), 0)
        number = sum(start <= at for start in starts)
    number = min(number, len(starts))
    shown = lines[starts[number - 1] : starts[number] if number < len(starts) else None]
    return DiffPage([_cut(line) for line in shown], number, len(starts), more)


def _cut(line: DiffLine) -> DiffLine:
    """Returns a line without what is too long to be shown."""
    if len(line.text) <= _MAX_LINE_CHARS:
        return line
    pieces, room = [], _MAX_LINE_CHARS
    for text, marked in line.pieces:
        pieces.append((text[:room], marked))
        room -= len(text[:room])
    return replace(line, pieces=tuple(pieces))


MAX_CHARACTERS = 160_000
"""Characters of a text that are rendered; a longer one is shown line by line."""
_MAX_HTML = 400_000
"""Characters of HTML; a text that would need more is shown line by line."""
_MAX_INLINE, _MAX_BRACKETS = 8_000, 400
"""Characters and opening brackets of a paragraph whose markup is read. The time for hostile markup grows with their
square."""
_START, _END = "\ufe45", "\ufe46"
"""Signs that stand in the text around the sentence while it is parsed. They are punctuation, as the characters around a
sentence are, so that they do not change what the markup means."""
_SIGNS = str.maketrans("", "", _START + _END)
_LEAD = re.compile(r"(?:[ \t]*+(?:(?:[-*+>]|#{1,6}|\d{1,9}[.)])[ \t]++|\|))*+[ \t]*+")
"""What may stand before the first word of a block: the marks of a list, a quotation, a heading or a table."""
_TAGS = {
    "paragraph": "p", "bullet_list": "ul", "ordered_list": "ol", "list_item": "li", "blockquote": "blockquote",
    "thead": "thead", "tbody": "tbody", "tr": "tr", "th": "th", "td": "td", "strong": "strong", "em": "em", "s": "s",
}  # fmt: skip
_WHOLE = ("paragraph_open", "heading_open", "list_item_open", "tr_open", "fence", "code_block")
"""The blocks that are marked if they belong to the passage."""
_ALIGN = {"text-align:right": ' class="n"', "text-align:center": ' class="mid"'}
_ENDS = (
    ".md",
    ".html.md",
    ".html.md.erb",
    ".html",
    ".markdown",
    ".mdx",
    ".rst",
    ".txt",
    "/index.md",
    "/README.md",
    "/_index.md",
)
_WEB = ("http://", "https://", "mailto:")

Find = Callable[[str], str]
"""Returns the address of the page that a link within the knowledge base leads to; empty if there is none."""


@dataclass(frozen=True)
class Marks:
    """What is marked: the characters of a sentence, and the lines of a passage, from 0, the last one not included."""

    sentence: tuple[int, int] = (0, 0)
    lines: tuple[int, int] = (0, 0)


@dataclass
class _RenderState:
    """What is known while a text is rendered."""

    find: Find
    picture: Find | None
    lines: tuple[int, int]
    first: int
    until: int
    """The last line of the sentence."""
    inside: bool = False
    """Whether the text belongs to the sentence."""
    placed: bool = False
    """Whether the page has the element that the address of a hit leads to."""
    closing: list[str] = field(default_factory=list)
    """The end tags of open links."""
    used: set[str] = field(default_factory=set)
    """The anchors of headings."""


def rendered(
    text: str, find: Find, title: str = "", marks: Marks | None = None, first: int = 1,
    picture: Find | None = None,
) -> Markup | None:  # fmt: skip
    """Returns a text as HTML; None if it is too long. `title` stands above it already, so that a heading of the same
    words is left out at the start. `first` is the number of its first line. `picture` finds the address of a picture;
    without it, pictures are their words."""
    marks = marks or Marks()
    if len(text) > MAX_CHARACTERS:
        return None
    html, state = _rendered(_with_signs(text, *marks.sentence), find, title, marks, first, picture)
    if marks.sentence[1] and not state.placed:  # the sentence is in something that is not shown
        html, _ = _rendered(text.translate(_SIGNS), find, title, Marks(lines=marks.lines), first, picture)
    return Markup(html) if len(html) <= _MAX_HTML else None


def _rendered(
    text: str, find: Find, title: str, marks: Marks, first: int, picture: Find | None
) -> tuple[str, _RenderState]:
    until = text.count("\n", 0, text.find(_END)) if _END in text else 0
    state = _RenderState(find, picture, marks.lines, first, until)
    tokens = _parsed(text)
    if len(tokens) > 2 and tokens[0].tag == "h1" and title_of(tokens[1].content.translate(_SIGNS)) == title:
        tokens = tokens[3:]
    return "".join(_blocks(tokens, state, _END in text)), state


def _with_signs(text: str, start: int, end: int) -> str:
    """Returns the text with signs around the sentence, inside the marks of its block."""
    if not end:
        return text.translate(_SIGNS)
    lead = _LEAD.match(text, start, end)
    start = lead.end() if lead else start
    end = max(start, start + len(text[start:end].rstrip(" \t\n|")))
    parts = (part.translate(_SIGNS) for part in (text[:start], text[start:end], text[end:]))
    return next(parts) + _START + next(parts) + _END + next(parts)


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("inline", True)


@cache
def _inline() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("strikethrough")


def _parsed(text: str) -> list[Token]:
    """Parses a text. The markup of a very long paragraph is not read."""
    env: dict[str, Any] = {}
    tokens: list[Token] = _parser().parse(text, env)
    for token in tokens:
        content = token.content
        if token.type == "inline" and len(content) <= _MAX_INLINE and content.count("[") <= _MAX_BRACKETS:
            token.children = _inline().parseInline(content, env)[0].children
    return tokens


def _blocks(tokens: Sequence[Token], state: _RenderState, in_sentence: bool) -> Iterator[str]:
    for at, token in enumerate(tokens):
        here = _attributes(token, state, in_sentence)
        if token.type == "inline":
            yield from _words(token, state)
        elif token.type in ("heading_open", "heading_close"):
            level = min(6, int(token.tag[1]) + 1)  # the page has a heading of its own
            anchor = _anchor(tokens[at + 1].content, state) if token.nesting == 1 else ""
            yield f"<h{level}{here}{anchor}>" if token.nesting == 1 else f"</h{level}>\n"
        elif token.type == "table_open":
            yield f'<div class="scroll" tabindex="0" role="region" aria-label="Table"><table{here}>\n'
        elif token.type == "table_close":
            yield "</table></div>\n"
        elif token.type in ("fence", "code_block"):
            yield f'<pre{here} tabindex="0"><code>{_text(token.content, state)}</code></pre>\n'
        elif token.type == "html_block":
            words = _words_of_html(token.content)
            yield f"<p{here}>{_text(words, state)}</p>\n" if words else ""
        elif token.type == "hr":
            yield "<hr>\n"
        elif not token.hidden:
            yield _tag(token, here)


def _words_of_html(html: str) -> str:
    """Returns what HTML says, without its scripts and styles."""
    hidden = html.lstrip().lower().startswith(("<script", "<style"))
    return "" if hidden else without_markup(html).strip()


def _tag(token: Token, here: str) -> str:
    """Returns the tag of a block or of an emphasis; nothing if the table does not have it."""
    name = _TAGS.get(token.type.removesuffix("_open").removesuffix("_close"))
    if name is None:
        return ""
    if token.nesting == -1:
        return f"</{name}>" + ("\n" if token.block else "")
    start = token.attrs.get("start")
    if name == "ol" and isinstance(start, int):
        here += f' start="{start}"'
    return f"<{name}{here}{_ALIGN.get(str(token.attrs.get('style', '')), '')}>"


def _attributes(token: Token, state: _RenderState, in_sentence: bool) -> str:
    """Returns the attributes of a block: where its line is, and whether it belongs to the passage."""
    if not token.map or token.nesting < 0:
        return ""
    (start, end), (first, last) = token.map, state.lines
    state.inside = state.inside and start <= state.until
    here = f' data-line="{state.first + start}"' if token.level == 0 else ""
    if token.type in _WHOLE and start < last and end > first:
        here += ' class="found"'
        if not in_sentence and not state.placed:
            state.placed = True
            here += ' id="passage"'
    return here


def _anchor(heading: str, state: _RenderState) -> str:
    """Returns the id of a heading, to which links lead; nothing if an earlier heading has it."""
    name = slug(title_of(heading.translate(_SIGNS)))
    if not name or name in state.used:
        return ""
    state.used.add(name)
    return f' id="h-{escape(name)}"'


def _words(token: Token, state: _RenderState) -> Iterator[str]:
    if token.children is None:
        yield _text(token.content, state)
    for child in token.children or ():
        if child.type == "text":
            yield _text(child.content, state)
        elif child.type == "code_inline":
            yield f"<code>{_text(child.content, state)}</code>"
        elif child.type == "softbreak":
            yield "\n"
        elif child.type == "hardbreak":
            yield "<br>\n"
        elif child.type == "html_inline":
            yield _text(without_markup(child.content), state)
        elif child.type == "image":
            yield _image(child, state)
        elif child.type == "link_open":
            yield _link(str(child.attrs.get("href", "")), state)
        elif child.type == "link_close":
            yield state.closing.pop()
        else:
            yield _tag(child, "")


def _image(token: Token, state: _RenderState) -> str:
    """Returns a picture, or its words if there is none. Words that are marked stay words."""
    target = str(token.attrs.get("src", "")).translate(_SIGNS)
    words = token.content or "image"
    signed = _START in words or _END in words
    address = "" if signed or not state.picture or target.lower().startswith(_WEB) else state.picture(target)
    if address:
        return f'<img src="{escape(address)}" alt="{escape(token.content)}" loading="lazy">'
    return f'<span class="image">{_text(words, state)}</span>'


def _link(target: str, state: _RenderState) -> str:
    """Returns the tag that begins a link. A link that leads nowhere is text."""
    if target.lower().startswith(_WEB):
        state.closing.append("</a>")
        return f'<a href="{escape(target)}" rel="noopener noreferrer nofollow">'
    path, _, anchor = target.partition("#")
    path = unquote(path.partition("?")[0]).translate(_SIGNS)
    address = state.find(path) if path else ""
    if anchor and (address or not path):
        address += f"#h-{anchor}"
    state.closing.append("</a>" if address else "</span>")
    return f'<a href="{escape(address)}">' if address else '<span class="nowhere">'


def _text(text: str, state: _RenderState) -> str:
    """Escapes a text. What belongs to the sentence is marked; the first part of it has the place of the hit."""
    shown = []
    for piece in _pieces(text):
        if piece == _START:
            state.inside = True
        elif piece == _END:
            state.inside = False
        elif state.inside and piece.strip():
            place = "" if state.placed else ' id="passage"'
            state.placed = True
            shown.append(f"<mark{place}>{escape(piece)}</mark>")
        else:
            shown.append(escape(piece))
    return "".join(shown)


def _pieces(text: str) -> Iterator[str]:
    """Yields the signs of a text, and what is between them."""
    before, start, rest = text.partition(_START)
    for part, sign in ((before, start), (rest, "")):
        inner, end, last = part.partition(_END)
        yield from (piece for piece in (inner, end, last, sign) if piece)


def links_to(documents: Mapping[str, object], document: str, address: Callable[[str], str]) -> Find:
    """Returns what finds the page of a link in a document: a link may leave out or change the suffix."""

    def find(target: str) -> str:
        for path in site_paths(document, target):
            names = (path, *(f"{without_suffix(path)}{end}" for end in _ENDS))
            if name := next((known for known in names if known in documents), ""):
                return address(name)
        return ""

    return find


def rendered_sheet(
    document: Document,
    page: Sheet,
    find: Find,
    passage: tuple[int, int],
    sentence: tuple[int, int],
    picture: Find | None = None,
) -> Markup | None:
    """Returns a page of a document as HTML; None if it is better shown line by line. `passage` and `sentence` are spans
    of the document."""
    text, size = document.text[page.start : page.end], page.end - page.start
    inside = page.start <= sentence[0] and sentence[1] <= page.end and sentence[1] > 0
    start, end = (min(max(0, at - page.start), size) for at in passage)
    lines = (line_at(text, start, 0), line_at(text, max(start, end - 1), 1)) if start < end else (0, 0)
    marks = Marks((sentence[0] - page.start, sentence[1] - page.start) if inside else (0, 0), lines)
    return rendered(
        text, find, document.title if not page.start else "", marks, page.lines[0][0] if page.lines else 1, picture
    )
