"""Cuts documents into the passages that questions are written from.

    segments    about 1,000 words, from the start of the document on; a segment of fewer than 500 words is left out (the
                agentic-knowledge-base study, section 4.1). A document that has none is cut into sections
    sections    sections, or parts of long sections: 25 to 350 words

They are not the chunks of a layout, because the exam is used to compare chunkers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from surefind.base.text.scripts import count_words
from surefind.base.text.sections import sections
from surefind.base.text.sentences import sentence_spans
from surefind.base.types import Document

Kind = Literal["segments", "sections"]
LIMITS: dict[Kind, tuple[int, int]] = {"segments": (500, 1000), "sections": (25, 350)}
"""Fewest and most words of a passage. Passages end with a sentence, so the most is exceeded by a longer sentence."""


@dataclass(frozen=True)
class SourcePassage:
    document: str
    start: int
    end: int
    text: str
    title: str = ""
    tags: frozenset[str] = field(default_factory=frozenset)

    def overlaps(self, document: str, start: int, end: int) -> bool:
        return self.document == document and start < self.end and self.start < end


def passages(documents: Iterable[Document], kind: Kind = "segments") -> list[SourcePassage]:
    return [passage for document in documents for passage in _of(document, kind) or _of(document, "sections")]


def short(documents: Iterable[Document]) -> int:
    """How many documents have no segment."""
    return sum(not _of(document, "segments") for document in documents)


def _of(document: Document, kind: Kind) -> list[SourcePassage]:
    fewest, most = LIMITS[kind]
    tags = _tags(document)
    own = [sentence_spans(document.text, s.start, s.end) for s in sections(document)]
    runs = own if kind == "sections" else [[sentence for section in own for sentence in section]]
    cut = [
        SourcePassage(document.id, start, end, document.text[start:end], document.title, tags)
        for run in runs
        for start, end in _parts(document.text, run, most)
    ]
    return [passage for passage in cut if count_words(passage.text) >= fewest]


def drawn(items: Sequence[tuple[SourcePassage, ...]], family: str, seed: int) -> list[tuple[SourcePassage, ...]]:
    """Shuffles by the seed alone and takes one item from each document in turn, so that long documents do not fill the
    exam."""
    turns: dict[str, int] = {}
    made = []
    for lot, item in sorted(((_lot(item, family, seed), item) for item in items), key=lambda pair: pair[0]):
        document = item[0].document
        turns[document] = turn = turns.get(document, 0) + 1
        made.append((turn, lot, item))
    return [item for _, _, item in sorted(made, key=lambda entry: entry[:2])]


def _lot(item: tuple[SourcePassage, ...], family: str, seed: int) -> str:
    places = "".join(f"\0{p.document}\0{p.start}\0{p.text}" for p in item)
    return hashlib.blake2b(f"{seed}\0{family}{places}".encode(), digest_size=8).hexdigest()


def _parts(text: str, sentences: Sequence[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Spans of whole sentences with at most `most` words together (a longer sentence is its own span)."""
    made: list[tuple[int, int]] = []
    words = 0
    for left, right in sentences:
        count = count_words(text[left:right])
        if made and words + count <= most:
            made[-1] = (made[-1][0], right)
            words += count
        else:
            made.append((left, right))
            words = count
    return made


def _tags(document: Document) -> frozenset[str]:
    given = document.metadata.get("tags", ())
    listed = given.split(",") if isinstance(given, str) else given if isinstance(given, list | tuple) else ()
    return frozenset(str(tag).strip().lower() for tag in listed if str(tag).strip())
