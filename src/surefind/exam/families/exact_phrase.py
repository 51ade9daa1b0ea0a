"""`exact_phrase`: the rarest six words in a row of a sentence, if they occur only once. Gold: that sentence.

In a script without spaces, twelve characters in a row.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise, zip_longest

from surefind.exam._documents import Candidate, ExamDocuments, is_prose, plain, terms
from surefind.text.scripts import CLUSTER, MARKS, UNSPACED, pattern
from surefind.types import Document

LENGTH = 6
_CANDIDATES, _FEWEST = 40_000, 5
"""About how many sentences are examined in all, and at least in each document."""
_WORD = re.compile(r"[$€£]?\w+(?:[-.,:/*'’&@]\w+)*(?:\(\w{1,3}\))*%?")
_LETTER = rf"[^\W{UNSPACED}][{MARKS}]*"
_PIECE = rf"{CLUSTER}|[$€£]?(?:{_LETTER})+(?:[-.,:/*'’&@](?:{_LETTER})+)*(?:\((?:{_LETTER}){{1,3}}\))*%?"


def exact_phrase(corpus: ExamDocuments) -> Iterator[Candidate]:
    found = []
    for document in corpus.documents:
        shown = corpus.readable(document)
        for start, end in _drawn(corpus, document):
            text = plain(shown[start:end])
            words = _words(text) if is_prose(text) else []
            if _length(words) > LENGTH + 2:
                found.append((_rarest(corpus, words), document, corpus.judge(document, start, end)))
    counts = _count(corpus, {phrase for phrase, _, _ in found})
    for phrase, document, judgment in found:
        if counts[phrase] == 1:
            yield Candidate(_joined(phrase), document.id, (judgment,))


def _drawn(corpus: ExamDocuments, document: Document) -> list[tuple[int, int]]:
    """The sentences of a document; of a large corpus, some of them, drawn by the seed."""
    spans = [span for section in corpus.sections(document) for span in section.sentences]
    most = max(_FEWEST, _CANDIDATES // len(corpus.documents))
    if len(spans) <= most:
        return spans
    lots = random.Random(f"{corpus.seed}:{document.id}")
    return sorted(lots.sample(spans, most))


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


def _windows(words: list[str]) -> Iterator[tuple[str, ...]]:
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

    return max(_windows(words), key=lambda window: (rarity(window), window))


@lru_cache(maxsize=1 << 16)  # a word is in six windows and in many sentences
def _of_word(word: str) -> tuple[str, ...]:
    return tuple(terms(word))


def _count(corpus: ExamDocuments, wanted: set[tuple[str, ...]]) -> Counter[tuple[str, ...]]:
    """How often each phrase occurs in the whole corpus."""
    counts: Counter[tuple[str, ...]] = Counter()
    for document in corpus.documents:
        counts.update(window for window in _windows(_words(plain(corpus.readable(document)))) if window in wanted)
    return counts
