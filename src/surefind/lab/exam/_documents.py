"""The documents as exam writers need them: readable text, sections and headings of each, and what is in which of them.

Texts are parsed only where a question may come from, or where another document may answer it: `headed` and `containing`
say which documents these are. They return at least the right ones; the family then reads them.

An index in memory: which documents contain given keys, such as words or the terms of headings.

The headings of a document: section headings, captions of tables and figures, and the title of the front matter.

Parsing Markdown takes longer than all the rest. `possible_headings` finds every text that may be a heading without a
parser, and some that are none (a comment in a code block). It shows which documents need not be parsed.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from surefind.base.text.blocks import Section, sections, title_of
from surefind.base.text.words import HANGUL, UNSPACED, pattern
from surefind.base.types import Document
from surefind.lab.exam.model import Judgment
from surefind.lab.exam.overlap import HOLE, of_token, plain, readable, terms, words

_RUN = re.compile(r"[a-z0-9]+")
_OTHER_RUN = rf"[^\W_{UNSPACED}{HANGUL}]+|[{UNSPACED}{HANGUL}]"


class Inverted:
    """Key -> the numbers of the documents that contain it, in ascending order."""

    def __init__(self, keys: Iterable[Iterable[str]]) -> None:
        """`keys` has the distinct keys of each document."""
        self._places: dict[str, list[int]] = defaultdict(list)
        for number, of_document in enumerate(keys):
            for key in of_document:
                self._places[key].append(number)

    def holding(self, keys: Iterable[str]) -> list[int]:
        """The documents that contain all of the keys; none if there is no key. The rarest key decides how long this
        takes."""
        rarest, *others = sorted((self._places.get(key, []) for key in set(keys)), key=len) or [[]]
        return [number for number in rarest if all(_contains(places, number) for places in others)]


def _contains(numbers: Sequence[int], wanted: int) -> bool:
    at = bisect_left(numbers, wanted)
    return at < len(numbers) and numbers[at] == wanted


def pieces(text: str) -> set[str]:
    """The runs of letters and digits of a text, in lower case; in a script without spaces, its characters.

    Markup, punctuation and underscores separate pieces. So if one text contains another, word for word, it contains its
    pieces, whatever markup is between the words.
    """
    lowered = text.lower()
    return set(_RUN.findall(lowered) if lowered.isascii() else pattern(_OTHER_RUN).findall(lowered))


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


_QUOTE = 80
"""Characters of a gold passage that a judgment quotes."""
_RARE = 0.08
"""The share of the documents that may contain a rare term."""


@dataclass(frozen=True)
class PossibleQuestion:
    """A possible question: its words, and the passages that answer it."""

    text: str
    document: str
    judgments: tuple[Judgment, ...]
    source: str = ""
    """The text it was made from, such as the heading behind a paraphrase."""


@dataclass(frozen=True)
class QuestionSeed:
    """What a question could be made of. Whether it can be asked is found out only if its turn comes."""

    text: str
    """A heading, a sentence or a name: its place among the drafts of its document depends on it."""
    ask: Callable[[], PossibleQuestion | None]
    """Makes the question; None if it is ambiguous or cannot be asked."""

    @staticmethod
    def of(candidate: PossibleQuestion) -> QuestionSeed:
        return QuestionSeed(candidate.text, lambda: candidate)


Drafts = Callable[[Document], Iterable[QuestionSeed]]
"""The drafts of a document."""


class ExamDocuments:
    def __init__(self, documents: Iterable[Document], seed: int = 0) -> None:
        self.documents = sorted(documents, key=lambda document: document.id)
        self.seed = seed
        self._sections: dict[str, list[Section]] = {}
        self._readable: dict[str, str] = {}
        self._headings: dict[str, list[Heading]] = {}
        self._by_term: dict[str, dict[str, list[Heading]]] = {}

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

    # ------------------------------------------------------------ headings

    @cached_property
    def possible_headings(self) -> dict[str, list[str]]:
        """Document -> all texts in it that may be headings."""
        return {document.id: possible_headings(document) for document in self.documents}

    def headings(self, document: Document) -> list[Heading]:
        """The headings of a document, in order."""
        if document.id not in self._headings:
            candidates = headings_of(document, self.sections(document), self.readable(document))
            self._headings[document.id] = list(candidates) if self.possible_headings[document.id] else []
        return self._headings[document.id]

    def headings_with(self, document: Document, wanted: frozenset[str]) -> list[Heading]:
        """The headings that contain these terms, alone or with the document's title."""
        by_term = self._by_term.get(document.id)
        if by_term is None:
            by_term = self._by_term[document.id] = defaultdict(list)
            for heading in self.headings(document):
                for term in heading.with_title:
                    by_term[term].append(heading)
        rarest = min((by_term.get(term, []) for term in wanted), key=len)
        return [heading for heading in rarest if wanted <= heading.with_title and heading.own & wanted]

    def headed(self, wanted: frozenset[str]) -> Iterable[Document]:
        """The documents whose title and headings may contain these terms."""
        return (self.documents[number] for number in self._heading_terms.holding(wanted))

    @cached_property
    def _heading_terms(self) -> Inverted:
        possible = self.possible_headings
        return Inverted(
            {term for text in (document.title, *possible[document.id]) for term in terms(text)}
            for document in self.documents
        )

    # ------------------------------------------------------------ words

    def containing(self, text: str, document: Document) -> list[Document]:
        """The documents that may contain a text of `document`, or have it in their title, in order.

        None if `document` is not found by its own text: then markup is inside a word, and others that contain the text
        are not found either.
        """
        documents = [self.documents[number] for number in self._pieces.holding(pieces(text))]
        return documents if any(other is document for other in documents) else []

    @cached_property
    def _pieces(self) -> Inverted:
        return Inverted(pieces(f"{document.title}\n{document.text}") for document in self.documents)

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
