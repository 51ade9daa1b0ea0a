"""`chunk_opening`: the first whole sentence of a window of 500 tokens, with an overlap of 50. Gold: its section.

The `first_sentence` questions of the company-context-layer study, which come from its chunks ("opening sentences of
chunks"). They depend on a layout, so `first_sentence` asks for the openings of sections instead, and this family is
written only if it is named. If up to `MAX_DOCUMENTS` documents have the same sentence, all are gold; if more do, the
sentence is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from surefind.base.text.scripts import count_words
from surefind.base.text.sections import Section
from surefind.base.text.tokens import token_spans
from surefind.base.types import Document
from surefind.lab.exam._documents import Drafts, ExamDocuments, PossibleQuestion, QuestionSeed
from surefind.lab.exam._words import is_prose, plain
from surefind.lab.exam.families.first_sentence import MAX_DOCUMENTS, STOPS
from surefind.lab.exam.model import Judgment

TOKENS, OVERLAP = 500, 50


def chunk_opening(corpus: ExamDocuments) -> Drafts:
    asking = _OpeningQuestions(corpus)

    def drafts(document: Document) -> Iterator[QuestionSeed]:
        for text in dict.fromkeys(asking.openings(document)):
            if 6 <= count_words(text) <= 30 and is_prose(text):
                yield QuestionSeed(text, partial(asking.ask, document, text))

    return drafts


class _OpeningQuestions:
    """Remembers the sentences of documents."""

    def __init__(self, corpus: ExamDocuments) -> None:
        self._corpus = corpus
        self._sentences: dict[str, list[tuple[int, str, Section]]] = {}

    def ask(self, document: Document, text: str) -> PossibleQuestion | None:
        judgments: list[Judgment] = []
        for other in self._corpus.containing(text, document):
            holding = [section for _, sentence, section in self.sentences(other) if sentence.lower() == text.lower()]
            judgments += (self._corpus.judge(other, section.start, section.end) for section in holding)
            if len({judgment.document for judgment in judgments}) > MAX_DOCUMENTS:
                return None
        return PossibleQuestion(text, judgments[0].document, tuple(dict.fromkeys(judgments))) if judgments else None

    def openings(self, document: Document) -> Iterator[str]:
        """The first sentence that begins in each window."""
        for start, end in _windows(document.text):
            yield next((text for at, text, _ in self.sentences(document) if start <= at < end), "")

    def sentences(self, document: Document) -> list[tuple[int, str, Section]]:
        """Where each sentence begins, its plain text and its section."""
        if document.id not in self._sentences:
            shown = self._corpus.readable(document)
            found = self._sentences[document.id] = []
            for section in self._corpus.sections(document):
                for start, end in section.sentences:
                    body = shown[start:end]
                    if body.strip():
                        found.append((start + len(body) - len(body.lstrip()), plain(body).rstrip(STOPS), section))
        return self._sentences[document.id]


def _windows(text: str) -> Iterator[tuple[int, int]]:
    tokens = token_spans(text)
    for first in range(0, max(1, len(tokens) - OVERLAP), TOKENS - OVERLAP):
        window = tokens[first : first + TOKENS]
        if window:
            yield window[0][0], window[-1][1]
