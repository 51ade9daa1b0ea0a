"""`entity_lookup`: an identifier, form number, code, acronym or name that occurs in few documents.

Gold: the sentences that contain it, in every document. An entity in more than `MAX_DOCUMENTS` documents is too
ambiguous and is dropped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache, partial
from operator import itemgetter

from surefind.base.text.scripts import HANGUL, UNSPACED, pattern
from surefind.base.text.sentences import sentence_spans
from surefind.base.types import Document
from surefind.lab.exam._documents import Drafts, ExamDocuments, PossibleQuestion, QuestionSeed
from surefind.lab.exam._names import named

MAX_DOCUMENTS = 3
_SPANS = 5
"""Most occurrences per document whose sentences become gold."""
_PART = rf"[^\W{UNSPACED}{HANGUL}]"

Spans = list[tuple[int, int]]


def entity_lookup(corpus: ExamDocuments) -> Drafts:
    asking = _EntityQuestions(corpus)

    def drafts(document: Document) -> Iterator[QuestionSeed]:
        for entity in asking.places(document):
            yield QuestionSeed(entity, partial(asking.ask, document, entity))

    return drafts


class _EntityQuestions:
    """Remembers the names and lines of the documents it has read."""

    def __init__(self, corpus: ExamDocuments) -> None:
        self._corpus = corpus
        self._places: dict[str, dict[str, list[int]]] = {}
        self._lines: dict[tuple[str, int], Spans] = {}

    def places(self, document: Document) -> dict[str, list[int]]:
        """Entity -> where it is in the document, as whole words."""
        if document.id not in self._places:
            found: dict[str, list[int]] = defaultdict(list)
            shown = self._corpus.readable(document)
            for entity, start in named(shown):
                if _is_whole(shown, start, start + len(entity)):
                    found[entity].append(start)
            self._places[document.id] = dict(found)
        return self._places[document.id]

    def ask(self, document: Document, entity: str) -> PossibleQuestion | None:
        # Every document that contains the words, in any case, fits the question: either all are judged, or none.
        documents = holders(self._corpus, document, entity)
        if not 0 < len(documents) <= MAX_DOCUMENTS or any(entity not in self.places(one) for one in documents):
            return None
        judgments = tuple(
            self._corpus.judge(one, *span)
            for one in documents
            for span in self._sentences(one, self.places(one)[entity])
        )
        return PossibleQuestion(entity, documents[0].id, judgments)

    def _sentences(self, document: Document, starts: list[int]) -> Spans:
        """The sentences around the given offsets, each once; a sentence never crosses a line. A line may contain many
        entities, so its sentences are remembered."""
        spans_seen: dict[tuple[int, int], None] = {}
        for at in starts[:_SPANS]:
            left = document.text.rfind("\n", 0, at) + 1
            if (document.id, left) not in self._lines:
                right = document.text.find("\n", at)
                end = len(document.text) if right < 0 else right
                self._lines[document.id, left] = sentence_spans(document.text, left, end)
            spans = self._lines[document.id, left]
            spans_seen[spans[bisect_right(spans, at, key=itemgetter(0)) - 1]] = None
        return list(spans_seen)


def holders(corpus: ExamDocuments, document: Document, entity: str) -> list[Document]:
    """The documents that contain the entity of a document as whole words, in their text or title, in any case; no more
    than MAX_DOCUMENTS + 1."""
    documents = []
    for other in corpus.containing(entity, document):
        if other is document or any(_contains(_lowered(text), entity.lower()) for text in (other.title, other.text)):
            documents.append(other)
            if len(documents) > MAX_DOCUMENTS:
                break
    return documents


@lru_cache(maxsize=16)  # many names of one document are looked for in the same others
def _lowered(text: str) -> str:
    return text.lower()


def _contains(text: str, words: str) -> bool:
    at = text.find(words)
    while at >= 0 and not _is_whole(text, at, at + len(words)):
        at = text.find(words, at + 1)
    return at >= 0


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether no word goes on before or after this part of the text."""
    return not _is_part(text[start - 1 : start]) and not _is_part(text[end : end + 1])


def _is_part(character: str) -> bool:
    """Whether this is a character of a word. Scripts without spaces and Hangul end a word."""
    if character.isascii():
        return character.isalnum() or character == "_"
    return pattern(_PART).match(character) is not None
