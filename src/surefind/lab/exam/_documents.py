"""The documents as exam writers need them: readable text, sections and headings of each, and what is in which of them.

Texts are parsed only where a question may come from, or where another document may answer it: `headed` and `containing`
say which documents these are. They return at least the right ones; the family then reads them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from surefind.base.text.sections import Section, sections
from surefind.base.types import Document
from surefind.lab.exam._headings import Heading, headings_of, possible_headings
from surefind.lab.exam._inverted import Inverted, pieces
from surefind.lab.exam._readable import readable
from surefind.lab.exam._words import of_token, terms, words
from surefind.lab.exam.model import Judgment

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
