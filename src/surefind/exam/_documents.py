"""The documents as exam writers need them: readable text, sections, headings, and which headings contain a term."""

from __future__ import annotations

import hashlib
import math
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from surefind.analyze.english import English
from surefind.exam._readable import HOLE, readable
from surefind.exam.model import Judgment
from surefind.text.sections import Section, sections
from surefind.types import Document

_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^)]{0,500}\)")
# Each alternative begins with a character, which is faster.
_MARKUP = re.compile(r"[*`]+|_(?<!\w_)_*|_(?<!__)_*+(?!\w)|<[^>]{1,500}>")
_CAPTION = re.compile(
    r"^[ \t>*_]*(?:(?:Table|Figure|Fig\.|Listing|Exhibit|Chart|Diagram)(?:[ \t]+[\dA-Z][\w.-]{0,20})?"
    r"[*_]*[:.–—][*_]*[ \t]+|<(?:fig)?caption>)([^\n<]+)",
    re.MULTILINE,
)
_NUMBERING = re.compile(
    r"^(?:(?:step|part|section|appendix)\s+\w{1,5}(?:[.:)—–]\s*|\s+[—–-]\s+)|[\d.]+[.)]?\s+|[A-Z]\.\s+|[IVX]+\.\s+)",
    re.IGNORECASE,
)
_ANALYZER = English()
_QUOTE = 80
"""Characters of a gold passage that a judgment quotes."""
_RARE = 0.08
"""The share of the documents that may contain a rare term."""
_SHORTEST = 40
"""Characters that a section must have below its heading."""


def plain(text: str) -> str:
    """Turns Markdown into one line of plain text."""
    return " ".join(_MARKUP.sub("", _LINK.sub(r"\1", text)).split())


def is_prose(text: str) -> bool:
    """Whether the plain text can be a question: no template tag, URL or placeholder is in it, and no table cell."""
    return HOLE not in text and "|" not in text


def words(text: str) -> list[str]:
    return _ANALYZER.tokens(text)


def query_words(text: str) -> list[str]:
    """The words of a question without question words, such as "how" and "do"."""
    return _ANALYZER.query_tokens(text)


def terms(text: str) -> list[str]:
    return [term for token in words(text) for term in of_token(token)]


@lru_cache(maxsize=1 << 16)  # writing an exam analyses the same words again and again
def of_token(token: str) -> tuple[str, ...]:
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


@dataclass(frozen=True)
class ExamDocuments:
    documents: Sequence[Document]
    seed: int = 0
    _sections: dict[str, list[Section]] = field(default_factory=dict)
    _readable: dict[str, str] = field(default_factory=dict)

    def sections(self, document: Document) -> list[Section]:
        if document.id not in self._sections:
            self._sections[document.id] = sections(document)
        return self._sections[document.id]

    def readable(self, document: Document) -> str:
        """The document's text with blanks for comments, template tags, code and link targets; offsets are the same."""
        if document.id not in self._readable:
            self._readable[document.id] = readable(document.text)
        return self._readable[document.id]

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
    def frequency(self) -> Counter[str]:
        """The number of documents that contain each term."""
        counts: Counter[str] = Counter()
        for document in self.documents:
            counts.update({term for token in set(words(document.text)) for term in of_token(token)})
        return counts

    @cached_property
    def idf(self) -> dict[str, float]:
        """The inverse document frequency of each term."""
        return {term: math.log(1 + len(self.documents) / count) for term, count in self.frequency.items()}

    def is_rare(self, term: str) -> bool:
        """Whether few documents contain the term."""
        return self.frequency[term] <= max(3, _RARE * len(self.documents))

    @cached_property
    def all_headings(self) -> list[Heading]:
        """All headings of all documents, in order."""
        return [heading for document in self.documents for heading in self._headings(document)]

    @cached_property
    def headings(self) -> dict[str, list[Heading]]:
        """Term -> the headings that contain it, or whose document's title does."""
        found: dict[str, list[Heading]] = defaultdict(list)
        for heading in self.all_headings:
            for term in heading.with_title:
                found[term].append(heading)
        return found

    def _headings(self, document: Document) -> Iterator[Heading]:
        title = frozenset(terms(document.title))
        places = [*self._section_places(document), *self._caption_places(document)]
        if document.metadata.get("title") and not any(terms(text) == terms(document.title) for text, _, _ in places):
            places.insert(0, (document.title, 0, len(document.text)))
        for raw, start, end in places:
            text = _NUMBERING.sub("", plain(raw)).strip(" :.–—-：。")
            own = frozenset(terms(text))
            if own and HOLE not in text:
                yield Heading(document, text, start, end, own, own | title)

    def _section_places(self, document: Document) -> Iterator[tuple[str, int, int]]:
        """Section headings. One in a comment is left out."""
        found, shown = self.sections(document), self.readable(document)
        for section, end in zip(found, _subtree_ends(found), strict=True):
            if section.path and shown[section.start : section.body].strip() and end - section.body > _SHORTEST:
                yield readable(section.title), section.start, end

    def _caption_places(self, document: Document) -> Iterator[tuple[str, int, int]]:
        """Captions of tables and figures; each stands for its section."""
        found = self.sections(document)
        starts = [section.start for section in found]
        for match in _CAPTION.finditer(document.text):
            section = found[max(0, bisect_right(starts, match.start()) - 1)]
            yield plain(self.readable(document)[slice(*match.span(1))]), section.start, section.end


def _subtree_ends(found: Sequence[Section]) -> list[int]:
    """For each section the end of the last section below it. A later section of the same path is not below it."""
    ends = [section.end for section in found]
    above: list[int] = []
    for at, section in enumerate(found):
        while above and not _below(section.path, found[above[-1]].path):
            above.pop()
        for upper in above:
            ends[upper] = section.end
        above.append(at)
    return ends


def _below(path: tuple[str, ...], upper: tuple[str, ...]) -> bool:
    return len(path) > len(upper) and path[: len(upper)] == upper
