"""The headings of a document: section headings, captions of tables and figures, and the title of the front matter.

Parsing Markdown takes longer than all the rest. `possible_headings` finds every text that may be a heading without a
parser, and some that are none (a comment in a code block). It shows which documents need not be parsed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from surefind.base.text.blocks import title_of
from surefind.base.text.sections import Section
from surefind.base.types import Document
from surefind.lab.exam._readable import HOLE, readable
from surefind.lab.exam._words import plain, terms

_CAPTION = re.compile(
    r"^[ \t>*_]*(?:(?:Table|Figure|Fig\.|Listing|Exhibit|Chart|Diagram)(?:[ \t]+[\dA-Z][\w.-]{0,20})?"
    r"[*_]*[:.–—][*_]*[ \t]+|<(?:fig)?caption>)([^\n<]+)",
    re.MULTILINE,
)
_NUMBERING = re.compile(
    r"^(?:(?:step|part|section|appendix)\s+\w{1,5}(?:[.:)—–]\s*|\s+[—–-]\s+)|[\d.]+[.)]?\s+|[A-Z]\.\s+|[IVX]+\.\s+)",
    re.IGNORECASE,
)
_HASHES = re.compile(r"(?:^|\r) {0,3}#{1,6}[ \t]+([^\r\n]+)", re.MULTILINE)
_UNDERLINE = re.compile(r"[\r\n] {0,3}(?:=+|-+)[ \t]*(?=[\r\n]|\Z)")
_LINES, _MAX_HEADING_CHARS = 5, 1000
"""The most lines and characters of an underlined heading that is found."""
_SHORTEST = 40
"""Characters that a section must have below its heading."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A section heading, a caption or a document's title, without numbering and markup, and the text it stands for."""

    document: Document
    text: str
    start: int
    end: int
    """The end of its section, including the sections below it."""
    own: frozenset[str]
    """The terms of the heading."""
    with_title: frozenset[str]
    """The terms of the heading and of the document's title."""


def headings_of(document: Document, document_sections: Sequence[Section], shown: str) -> Iterator[Heading]:
    """The headings of a document with these sections, whose readable text is `shown`."""
    title = frozenset(terms(document.title))
    places = [*_section_places(document_sections, shown), *_caption_places(document, document_sections, shown)]
    if document.metadata.get("title") and not any(terms(text) == terms(document.title) for text, _, _ in places):
        places.insert(0, (document.title, 0, len(document.text)))
    for raw, start, end in places:
        text = _cleaned(raw)
        own = frozenset(terms(text))
        if own and HOLE not in text:
            yield Heading(document, text, start, end, own, own | title)


def possible_headings(document: Document) -> list[str]:
    """The texts of all headings that `headings_of` may return, and perhaps others."""
    candidates = [document.title] if document.metadata.get("title") else []
    candidates += (readable(match[1]) for match in _CAPTION.finditer(document.text))
    if document.format == "markdown":
        candidates += (readable(title_of(text)) for text in (*_marked(document.text), *_underlined(document.text)))
    return [_cleaned(raw) for raw in candidates]


def _cleaned(raw: str) -> str:
    """The words of a heading: without markup, numbering and punctuation around them."""
    return _NUMBERING.sub("", plain(raw)).strip(" :.–—-：。")


def _marked(text: str) -> Iterator[str]:
    return (match[1].rstrip("# \t") for match in _HASHES.finditer(text)) if "#" in text else iter(())


def _underlined(text: str) -> Iterator[str]:
    """The last line above each underline, the last two, and so on up to a blank line."""
    for match in _UNDERLINE.finditer(text):
        above = text[max(0, match.start() - _MAX_HEADING_CHARS) : match.start()].splitlines()
        for at in range(len(above) - 1, max(-1, len(above) - 1 - _LINES), -1):
            if not above[at].strip():
                break
            yield "\n".join(above[at:])


def _section_places(document_sections: Sequence[Section], shown: str) -> Iterator[tuple[str, int, int]]:
    """Section headings. One in a comment is left out."""
    for section, end in zip(document_sections, subtree_ends(document_sections), strict=True):
        if section.path and shown[section.start : section.body].strip() and end - section.body > _SHORTEST:
            yield readable(section.title), section.start, end


def _caption_places(
    document: Document, document_sections: Sequence[Section], shown: str
) -> Iterator[tuple[str, int, int]]:
    """Captions of tables and figures; each stands for its section."""
    starts = [section.start for section in document_sections]
    for match in _CAPTION.finditer(document.text):
        section = document_sections[max(0, bisect_right(starts, match.start()) - 1)]
        yield plain(shown[slice(*match.span(1))]), section.start, section.end


def subtree_ends(document_sections: Sequence[Section]) -> list[int]:
    """For each section the end of the last section below it. A later section of the same path is not below it."""
    ends = [section.end for section in document_sections]
    above: list[int] = []
    for at, section in enumerate(document_sections):
        while above and not _below(section.path, document_sections[above[-1]].path):
            above.pop()
        for upper in above:
            ends[upper] = section.end
        above.append(at)
    return ends


def _below(path: tuple[str, ...], upper: tuple[str, ...]) -> bool:
    return len(path) > len(upper) and path[: len(upper)] == upper
