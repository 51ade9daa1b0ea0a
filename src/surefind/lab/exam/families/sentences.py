"""`first_sentence`: the sentence that opens a section. Gold: the section.

If up to `MAX_DOCUMENTS` documents have the same sentence, all are gold; if more do, the sentence is dropped.

`chunk_opening`: the first whole sentence of a window of 500 tokens, with an overlap of 50. Gold: its section.

The `first_sentence` questions of the company-context-layer study, which come from its chunks ("opening sentences of
chunks"). They depend on a layout, so `first_sentence` asks for the openings of sections instead, and this family is
written only if it is named. If up to `MAX_DOCUMENTS` documents have the same sentence, all are gold; if more do, the
sentence is dropped.

`exact_phrase`: the rarest six words in a row of a sentence, if they occur only once. Gold: that sentence.

In a script without spaces, twelve characters in a row.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate, chain, islice, pairwise, zip_longest

from surefind.base.text.blocks import Section
from surefind.base.text.words import CLUSTER, MARKS, UNSPACED, count_words, pattern, token_spans
from surefind.base.types import Document
from surefind.lab.exam._documents import Drafts, ExamDocuments, PossibleQuestion, QuestionSeed
from surefind.lab.exam.model import Judgment
from surefind.lab.exam.overlap import is_prose, plain, terms

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


LENGTH = 6
_WORD = re.compile(r"[$€£]?\w+(?:[-.,:/*'’&@]\w+)*(?:\(\w{1,3}\))*%?")
_LETTER = rf"[^\W{UNSPACED}][{MARKS}]*"
_PIECE = rf"{CLUSTER}|[$€£]?(?:{_LETTER})+(?:[-.,:/*'’&@](?:{_LETTER})+)*(?:\((?:{_LETTER}){{1,3}}\))*%?"


def exact_phrase(corpus: ExamDocuments) -> Drafts:
    def drafts(document: Document) -> Iterator[QuestionSeed]:
        shown = corpus.readable(document)
        for section in corpus.sections(document):
            for start, end in section.sentences:
                yield QuestionSeed(shown[start:end], partial(_ask, corpus, document, start, end))

    return drafts


def _ask(corpus: ExamDocuments, document: Document, start: int, end: int) -> PossibleQuestion | None:
    text = plain(corpus.readable(document)[start:end])
    words = _words(text) if is_prose(text) else []
    if _length(words) <= LENGTH + 2:
        return None
    phrase = _rarest(corpus, words)
    if not _stands_once(corpus, document, phrase):
        return None
    return PossibleQuestion(_joined(phrase), document.id, (corpus.judge(document, start, end),))


def _words(text: str) -> list[str]:
    """The words of a text; in a script without spaces, its character clusters."""
    other = not text.isascii() and pattern(f"[{UNSPACED}{MARKS}]").search(text)
    return pattern(_PIECE).findall(text) if other else _WORD.findall(text)


def _unspaced(word: str) -> bool:
    return not word.isascii() and pattern(f"[{UNSPACED}]").match(word) is not None


def _spaced(words: Sequence[str]) -> bool:
    """Whether all words are from scripts with spaces; quick for ASCII."""
    return "".join(words).isascii() or not any(map(_unspaced, words))


def _length(words: list[str]) -> float:
    return len(words) if _spaced(words) else sum(map(_weight, words))


def _weight(word: str) -> float:
    return 0.5 if _unspaced(word) else 1.0


def _runs(words: list[str]) -> Iterator[tuple[str, ...]]:
    if _spaced(words):
        yield from zip(*(words[i:] for i in range(LENGTH)), strict=False)  # three times as fast as the loop below
        return
    ends = [0.0, *accumulate(map(_weight, words))]
    end = 0
    for start, before in enumerate(ends):
        while end < len(ends) and ends[end] - before < LENGTH:
            end += 1
        if end == len(ends):
            return
        yield tuple(words[start:end])


def _joined(words: Sequence[str]) -> str:
    """Joins words by spaces, except inside a script without spaces."""
    gaps = ("" if _unspaced(a) and _unspaced(b) else " " for a, b in pairwise(words))
    return "".join(chain.from_iterable(zip_longest(words, gaps, fillvalue="")))


def _rarest(corpus: ExamDocuments, words: list[str]) -> tuple[str, ...]:
    """The window whose distinct terms have the highest sum of idf."""
    idf, spaced = corpus.idf, _spaced(words)

    def rarity(window: tuple[str, ...]) -> float:
        # Words between spaces are analysed one by one; characters without spaces give terms in pairs.
        distinct = set().union(*map(_of_word, window)) if spaced else set(terms(_joined(window)))
        return math.fsum([idf.get(term, 0.0) for term in distinct])  # the sum is the same in any order

    return max(_runs(words), key=lambda window: (rarity(window), window))


@lru_cache(maxsize=1 << 16)  # a word is in six windows and in many sentences
def _of_word(word: str) -> tuple[str, ...]:
    return tuple(terms(word))


def _stands_once(corpus: ExamDocuments, document: Document, phrase: tuple[str, ...]) -> bool:
    """Whether the phrase of this document stands nowhere else in the corpus."""
    count = 0
    for other in corpus.containing(" ".join(phrase), document):
        count += _count(*_placed(corpus.readable(other)), phrase)
        if count > 1:
            break
    return count == 1


def _count(words: Sequence[str], places: Mapping[str, Sequence[int]], phrase: tuple[str, ...]) -> int:
    """How often the phrase is among the words, up to 2. Only the places of its rarest word are looked at."""
    at = min(range(len(phrase)), key=lambda at: len(places.get(phrase[at], ())))
    starts = (place - at for place in places.get(phrase[at], ()))
    matches = (start for start in starts if start >= 0 and tuple(words[start : start + len(phrase)]) == phrase)
    return len(list(islice(matches, 2)))


@lru_cache(maxsize=64)  # many sentences of one document are examined in a row
def _placed(shown: str) -> tuple[list[str], dict[str, list[int]]]:
    """The words of a document, and where each of them is."""
    words = _words(plain(shown))
    places: dict[str, list[int]] = defaultdict(list)
    for at, word in enumerate(words):
        places[word].append(at)
    return words, dict(places)


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
