"""The blocks of a passage that a person would copy: what an answer quotes.

    paragraph    with the question above it, if that is one of an FAQ; a long one in groups of sentences
    item         of a list, with the line that leads into the list
    row          of a table, with its header
    code         with the line before it

Never a heading alone, markup, a line of links, a mere pointer ("see below:") or the rest of a sentence that began
before the passage. A block that cannot be read without the one before it ("This …", "It …") begins with that one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Literal

from surefind.base.text.blocks import title_of
from surefind.base.text.markup import plain
from surefind.base.text.words import sentence_spans

Span = tuple[int, int]
MOST = 600
"""Characters of a quote, at most."""
_GROUP = 450
"""Characters of the groups of sentences into which a long paragraph is cut."""
_LEAD = 220
"""Characters of a line that leads into a list, a table or code, at most: its last sentences."""
_MIN_WORDS = 3
_LINKED = 0.8
"""The share of a line's letters that is in links, from which it is navigation."""
_LINK_TEXT = re.compile(r"\[([^\[\]]{0,300})\](?:\([^()\s]{0,500}\)|\[[^\[\]]{0,100}\])|<https?:[^<>\s]+>|https?:\S+")
_WORD = re.compile(r"\w+")
_POINTS_BACK = re.compile(
    r"(?:it|its|this|that|these|those|they|their|them|he|she|such|then|also|both|instead|otherwise|however|if not)\b",
    re.I,
)
_MAX_CHARS = 20_000
"""Characters of a passage that are cut into blocks, at most."""

Kind = Literal["paragraph", "item", "row", "code"]


@dataclass(frozen=True, slots=True)
class Quotable:
    kind: Kind
    text: str
    """Its words, without markup. Rows have ` | ` between cells, code its lines."""
    start: int
    end: int
    headings: tuple[str, ...] = ()
    """The headings above it in the passage."""
    lead: str = ""
    """What it needs before it: the question, the line that leads into the list, the header of the table."""
    group: int = 0
    """Blocks of one list or table, or of one long paragraph, have the same number."""
    number: str = ""
    """The mark of the item: `-`, or `2.`."""

    @property
    def points_back(self) -> bool:
        """Whether it speaks of what stands before it."""
        return bool(_POINTS_BACK.match(self.text))

    @property
    def read(self) -> str:
        """What the reader reads."""
        return f"{self.lead}\n{self.text}" if self.lead else self.text

    @property
    def line(self) -> str:
        """The block as it stands in a quote, without its lead."""
        return f"{self.number} {self.text}" if self.number else self.text


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable("inline", True)


@dataclass(frozen=True, slots=True)
class _Node:
    """A block of Markdown with those inside it."""

    token: Any
    children: tuple[_Node, ...]

    @property
    def kind(self) -> str:
        return str(self.token.type).removesuffix("_open")


def _nodes(tokens: Sequence[Any]) -> tuple[_Node, ...]:
    stack: list[tuple[Any, list[_Node]]] = [(None, [])]
    for token in tokens:
        if token.nesting > 0:
            stack.append((token, []))
        elif token.nesting < 0:
            opened, children = stack.pop()
            stack[-1][1].append(_Node(opened, tuple(children)))
        else:
            stack[-1][1].append(_Node(token, ()))
    return tuple(stack[0][1])


@lru_cache(maxsize=500)
def blocks_of(text: str, is_cut: bool = False) -> tuple[Quotable, ...]:
    """Returns the blocks of a passage, in order. `is_cut` says that text comes before it, so that its first line may be
    the rest of a sentence."""
    text = text[:_MAX_CHARS]
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    cutter = _Cutter(text, lines)
    made = list(cutter.blocks(_nodes(_parser().parse(text))))
    if made and is_cut and made[0].kind == "paragraph" and made[0].text[:1].islower():
        del made[0]
    return tuple(made)


@dataclass(slots=True)
class _Cutter:
    text: str
    lines: list[int]
    groups: int = 0

    def blocks(self, nodes: Sequence[_Node]) -> Iterator[Quotable]:
        trail: list[tuple[int, str]] = []
        run: list[_Node] = []
        for node in nodes:
            if node.kind != "heading":
                run.append(node)
                continue
            yield from self._run(run, trail)
            level = int(node.token.tag[1])
            title = plain(title_of(node.children[0].token.content)) if node.children else ""
            trail, run = [step for step in trail if step[0] < level] + [(level, title)], []
        yield from self._run(run, trail)

    def _run(self, run: Sequence[_Node], trail: Sequence[tuple[int, str]]) -> Iterator[Quotable]:
        """Yields the blocks below one heading."""
        headings = tuple(title for _, title in trail if title)
        question = headings[-1] if headings and headings[-1].endswith("?") else ""
        for block in self._siblings(run, question):
            yield replace(block, headings=headings)

    def _siblings(self, nodes: Sequence[_Node], lead: str = "") -> Iterator[Quotable]:
        """Yields the blocks of nodes that stand one after the other."""
        before = ""
        for at, node in enumerate(nodes):
            after = nodes[at + 1].kind if at + 1 < len(nodes) else ""
            start, end = self._span(node)
            if node.kind == "paragraph":
                text = self._plain(node)
                if text.endswith(("?", "？")) and after == "paragraph" and len(text) <= _LEAD:
                    lead, before = text, ""
                    continue
                leads = after in ("bullet_list", "ordered_list", "table", "fence", "code_block")
                if not (leads and text.endswith((":", "：")) and len(text) <= _LEAD) and self._says(node, text, lead):
                    yield from self._paragraph(text, start, end, lead)
                before = _last_sentences(text)
            elif node.kind in ("bullet_list", "ordered_list"):
                yield from self._list(node, before or lead)
                before = ""
            elif node.kind == "table":
                yield from self._table(node, before)
                before = ""
            elif node.kind in ("fence", "code_block"):
                code = node.token.content.strip("\n")
                if code.strip() and len(code) <= 3 * MOST:
                    yield Quotable("code", _whole_lines(code), start, end, lead=before or lead)
            elif node.kind == "blockquote":
                yield from self._siblings(node.children, lead)
                before = ""
            elif node.kind == "html_block":
                text = plain(node.token.content)
                if self._says(node, text):
                    yield from self._paragraph(text, start, end, lead)

    def _paragraph(self, text: str, start: int, end: int, lead: str) -> Iterator[Quotable]:
        self.groups += 1
        for part in _parts(text):
            yield Quotable("paragraph", part, start, end, lead=lead, group=self.groups)

    def _list(self, node: _Node, lead: str) -> Iterator[Quotable]:
        self.groups += 1
        group = self.groups
        first = int(dict(node.token.attrs or {}).get("start", 1))
        for number, item in enumerate(node.children, first):
            mark = f"{number}." if node.kind == "ordered_list" else "-"
            start, end = self._span(item)
            text = "\n".join(self._lines(item))
            if len(text) <= MOST - 100:
                if len(_WORD.findall(text)) >= 1 and not (self._is_links(start, end)):
                    yield Quotable("item", text, start, end, lead=lead, group=group, number=mark)
                continue
            inner = list(self._siblings(item.children))
            above = inner[0].text[:_LEAD] if inner and len(inner[0].text) <= _LEAD else lead
            yield from (
                replace(block, lead=block.lead or (above if block is not inner[0] else lead)) for block in inner
            )

    def _lines(self, node: _Node) -> Iterator[str]:
        """Yields the lines of an item with all that is inside it."""
        for child in node.children:
            if child.kind in ("paragraph", "heading"):
                text = self._plain(child)
                if " " in text or len(node.children) == 1:  # not "Note" alone
                    yield text
            elif child.kind in ("fence", "code_block"):
                yield _whole_lines(child.token.content.strip("\n"))
            elif child.kind in ("bullet_list", "ordered_list"):
                for number, item in enumerate(child.children, 1):
                    mark = f"{number}." if child.kind == "ordered_list" else "-"
                    inner = list(self._lines(item))
                    yield from (f"  {mark if at == 0 else ' '} {line}" for at, line in enumerate(inner))
            elif child.kind == "html_block":
                yield plain(child.token.content)
            elif child.children:
                yield from self._lines(child)

    def _table(self, node: _Node, lead: str) -> Iterator[Quotable]:
        self.groups += 1
        rows = [row for part in node.children for row in part.children]
        header, group = "", self.groups
        for number, row in enumerate(rows):
            cells = [plain(cell.children[0].token.content) if cell.children else "" for cell in row.children]
            text = _whole_words(" | ".join(cells).strip(" |"))
            if number == 0:
                header = text
            elif text:
                start, end = self._span(row)
                yield Quotable("row", text, start, end, lead="\n".join(filter(None, (lead, header))), group=group)

    def _says(self, node: _Node, text: str, question: str = "") -> bool:
        """Whether a paragraph says something; the answer to a question may be one word."""
        least = 1 if question else _MIN_WORDS
        return len(_WORD.findall(text)) >= least and not self._is_links(*self._span(node))

    def _is_links(self, start: int, end: int) -> bool:
        raw = self.text[start:end]
        links = sum(_letters(link[1] or link[0]) for link in _LINK_TEXT.finditer(raw))
        letters = _letters(plain(raw))
        return bool(links) and links >= _LINKED * letters

    def _plain(self, node: _Node) -> str:
        return plain(node.children[0].token.content) if node.children else ""

    def _span(self, node: _Node) -> Span:
        first, last = node.token.map
        return self.lines[first], self.lines[min(last, len(self.lines) - 1)]


def _letters(text: str) -> int:
    return sum(map(len, _WORD.findall(text)))


def _parts(text: str) -> list[str]:
    """Cuts a long paragraph between sentences."""
    if len(text) <= MOST:
        return [text]
    parts = [""]
    for start, end in sentence_spans(text, 0, len(text)):
        sentence = text[start:end].strip()
        if parts[-1] and len(parts[-1]) + len(sentence) > _GROUP:
            parts.append("")
        parts[-1] = f"{parts[-1]} {sentence}".strip()
    return [_whole_words(part) for part in parts if part]


def _whole_words(text: str) -> str:
    if len(text) <= MOST:
        return text
    end = text.rfind(" ", 0, MOST - 2)
    return text[: end if end > 0 else MOST - 2] + " …"


def _whole_lines(code: str) -> str:
    """The first lines of code that fit."""
    if len(code) <= MOST - 100:
        return code
    kept: list[str] = []
    size = 0
    for line in code.split("\n"):
        size += len(line) + 1
        if size > MOST - 102 and kept:
            break
        kept.append(line[: MOST - 102])
    return "\n".join([*kept, "…"])


def _last_sentences(text: str) -> str:
    """The end of a paragraph, as the line that leads into what follows."""
    kept = ""
    for start, end in reversed(list(sentence_spans(text, 0, len(text)))):
        sentence = text[start:end].strip()
        if kept and len(kept) + len(sentence) > _LEAD:
            break
        kept = f"{sentence} {kept}".strip()
        if len(kept) > _LEAD // 3:
            break
    return kept[-_LEAD:] if len(kept) <= _LEAD else ""
