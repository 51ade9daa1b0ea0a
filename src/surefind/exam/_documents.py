"""The documents as exam writers need them: their sections and terms, and which headings contain which terms."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from surefind.analyze.english import English
from surefind.exam.model import Judgment
from surefind.text.sections import Section, sections
from surefind.types import Document

_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKUP = re.compile(r"[*`]+|_(?<!\w_)_*|_+(?!\w)|<[^>]+>")  # each alternative begins with a character: faster
_ANALYZER = English()
_QUOTE = 80
"""Characters of a gold passage that a judgment quotes."""


def plain(text: str) -> str:
    """Turns Markdown into one line of plain text."""
    return " ".join(_MARKUP.sub("", _LINK.sub(r"\1", text)).split())


def terms(text: str) -> list[str]:
    return [term for token in _ANALYZER.tokens(text) for term in _of_token(token)]


@lru_cache(maxsize=1 << 16)  # writing an exam analyses the same words again and again
def _of_token(token: str) -> tuple[str, ...]:
    return _ANALYZER.terms(token)


@dataclass(frozen=True)
class Candidate:
    """A possible question: its words, and the passages that answer it."""

    text: str
    document: str
    judgments: tuple[Judgment, ...]
    source: str = ""
    """The text it was made from, such as the heading behind a paraphrase."""


@dataclass(frozen=True, slots=True)
class Heading:
    document: Document
    section: Section
    own: frozenset[str]
    """The terms of the heading."""
    with_title: frozenset[str]
    """The terms of the heading and of the document's title."""


@dataclass(frozen=True)
class ExamDocuments:
    documents: Sequence[Document]
    seed: int = 0
    _sections: dict[str, list[Section]] = field(default_factory=dict)
    _ends: dict[str, dict[tuple[str, ...], int]] = field(default_factory=dict)
    """Document -> path of headings -> the end of the last section below it."""

    def sections(self, document: Document) -> list[Section]:
        if document.id not in self._sections:
            self._sections[document.id] = sections(document)
        return self._sections[document.id]

    def judge(self, document: Document, start: int, end: int) -> Judgment:
        text = document.text[start:end]
        start += len(text) - len(text.lstrip())
        end = start + len(text.strip())
        return Judgment(document.id, start, end, 1, document.text[start:end][:_QUOTE])

    def shuffled(self, family: str, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Shuffles the candidates by the seed alone, and takes one from each document in turn, so that long documents
        do not fill the exam."""
        by_document: dict[str, list[tuple[str, Candidate]]] = defaultdict(list)
        for candidate in candidates:
            by_document[candidate.document].append((self._lot(family, candidate), candidate))
        queues = [sorted(queue, key=lambda pair: pair[0]) for queue in by_document.values()]
        turns = [(turn, lot, candidate) for queue in queues for turn, (lot, candidate) in enumerate(queue)]
        return [candidate for _, _, candidate in sorted(turns, key=lambda entry: entry[:2])]

    def _lot(self, family: str, candidate: Candidate) -> str:
        text = f"{self.seed}\0{family}\0{candidate.document}\0{candidate.text}"
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    @cached_property
    def idf(self) -> dict[str, float]:
        """The inverse document frequency of each term."""
        counts: Counter[str] = Counter()
        for document in self.documents:
            counts.update({term for token in set(_ANALYZER.tokens(document.text)) for term in _of_token(token)})
        return {term: math.log(1 + len(self.documents) / count) for term, count in counts.items()}

    @cached_property
    def headings(self) -> dict[str, list[Heading]]:
        """Term -> the sections with a heading whose heading or document title contains it."""
        found: dict[str, list[Heading]] = defaultdict(list)
        for document in self.documents:
            title = frozenset(terms(document.title))
            for section in self.sections(document):
                own = frozenset(terms(section.title))
                heading = Heading(document, section, own, own | title)
                for term in heading.with_title if own else ():
                    found[term].append(heading)
        return found

    def subtree_end(self, document: Document, section: Section) -> int:
        """The end of the section, including the sections below it."""
        if document.id not in self._ends:
            self._ends[document.id] = {
                s.path[:depth]: s.end for s in self.sections(document) for depth in range(len(s.path) + 1)
            }
        return self._ends[document.id][section.path]
