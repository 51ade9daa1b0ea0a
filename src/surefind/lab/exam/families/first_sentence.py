"""`first_sentence`: the sentence that opens a section. Gold: the section.

If up to `MAX_DOCUMENTS` documents have the same sentence, all are gold; if more do, the sentence is dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from surefind.base.text.scripts import count_words
from surefind.base.text.sections import Section
from surefind.base.types import Document
from surefind.lab.exam._documents import Drafts, ExamDocuments, PossibleQuestion, QuestionSeed
from surefind.lab.exam._words import is_prose, plain
from surefind.lab.exam.model import Judgment

MAX_DOCUMENTS = 3
STOPS = ".:;。：；।۔។။"


def first_sentence(corpus: ExamDocuments) -> Drafts:
    asking = _SentenceQuestions(corpus)

    def drafts(document: Document) -> Iterator[QuestionSeed]:
        for (text, _), *_ in asking.openings(document).values():
            if 6 <= count_words(text) <= 30 and is_prose(text):
                yield QuestionSeed(text, partial(asking.ask, document, text))

    return drafts


class _SentenceQuestions:
    """Remembers how the sections of documents begin."""

    def __init__(self, corpus: ExamDocuments) -> None:
        self._corpus = corpus
        self._openings: dict[str, dict[str, list[tuple[str, Section]]]] = {}

    def ask(self, document: Document, text: str) -> PossibleQuestion | None:
        judgments: list[Judgment] = []
        for other in self._corpus.containing(text, document):
            same = self.openings(other).get(text.lower(), ())
            judgments += (self._corpus.judge(other, section.start, section.end) for _, section in same)
            if len({judgment.document for judgment in judgments}) > MAX_DOCUMENTS:
                return None
        return PossibleQuestion(text, judgments[0].document, tuple(judgments)) if judgments else None

    def openings(self, document: Document) -> dict[str, list[tuple[str, Section]]]:
        """The first sentences of the sections in lower case -> the sentences as they are, and their sections."""
        if document.id not in self._openings:
            shown = self._corpus.readable(document)
            found: dict[str, list[tuple[str, Section]]] = defaultdict(list)
            for section in self._corpus.sections(document):
                text = plain(_first(shown, section)).rstrip(STOPS)
                found[text.lower()].append((text, section))
            self._openings[document.id] = dict(found)
        return self._openings[document.id]


def _first(shown: str, section: Section) -> str:
    """The first sentence that is not blank: a comment or an image is not a sentence."""
    return next((text for start, end in section.sentences if (text := shown[start:end]).strip()), "")
