"""`exact_phrase`: six words in a row that stand nowhere else, the rarest of their sentence. Gold: that sentence.

In a script without spaces, twelve characters in a row.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise, zip_longest

from surefind.exam._documents import Candidate, ExamDocuments, plain, terms
from surefind.text.scripts import CLUSTER, MARKS, UNSPACED, pattern

LENGTH = 6
_WORD = re.compile(r"[$€£]?\w+(?:[-.,:/*'’&@]\w+)*(?:\(\w{1,3}\))*%?")
_LETTER = rf"[^\W{UNSPACED}][{MARKS}]*"
_PIECE = rf"{CLUSTER}|[$€£]?(?:{_LETTER})+(?:[-.,:/*'’&@](?:{_LETTER})+)*(?:\((?:{_LETTER}){{1,3}}\))*%?"


def exact_phrase(corpus: ExamDocuments) -> Iterator[Candidate]:
    found = []
    for document in corpus.documents:
        for start, end in (span for section in corpus.sections(document) for span in section.sentences):
            words = _words(plain(document.text[start:end]))
            if sum(map(_weight, words)) > LENGTH + 2:
                found.append((_rarest(corpus, words), document, corpus.judge(document, start, end)))
    standing = _count(corpus, {phrase for phrase, _, _ in found})
    for phrase, document, judgment in found:
        if standing[phrase] == 1:
            yield Candidate(_joined(phrase), document.id, (judgment,))


def _words(text: str) -> list[str]:
    """Words; of a script without spaces, its clusters."""
    other = not text.isascii() and pattern(f"[{UNSPACED}{MARKS}]").search(text)
    return pattern(_PIECE).findall(text) if other else _WORD.findall(text)


def _unspaced(word: str) -> bool:
    return not word.isascii() and pattern(f"[{UNSPACED}]").match(word) is not None


def _weight(word: str) -> float:
    return 0.5 if _unspaced(word) else 1.0


def _windows(words: list[str]) -> Iterator[tuple[str, ...]]:
    if not any(map(_unspaced, words)):
        yield from zip(*(words[i:] for i in range(LENGTH)), strict=False)  # a third of the time of what follows
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
    """With spaces, but none inside a script that has none."""
    gaps = ("" if _unspaced(a) and _unspaced(b) else " " for a, b in pairwise(words))
    return "".join(chain.from_iterable(zip_longest(words, gaps, fillvalue="")))


def _rarest(corpus: ExamDocuments, words: list[str]) -> tuple[str, ...]:
    """The window whose distinct terms have the highest idf together."""
    idf, spaced = corpus.idf, not any(map(_unspaced, words))

    def rarity(window: tuple[str, ...]) -> float:
        # What stands between spaces has terms of its own; characters without spaces have them in pairs.
        distinct = set().union(*map(_of_word, window)) if spaced else set(terms(_joined(window)))
        return math.fsum([idf.get(term, 0.0) for term in distinct])  # the same in any order

    return max(_windows(words), key=lambda window: (rarity(window), window))


@lru_cache(maxsize=1 << 16)  # a word stands in six windows, and in many sentences
def _of_word(word: str) -> tuple[str, ...]:
    return tuple(terms(word))


def _count(corpus: ExamDocuments, wanted: set[tuple[str, ...]]) -> Counter[tuple[str, ...]]:
    """How often each phrase stands in the whole corpus."""
    counts: Counter[tuple[str, ...]] = Counter()
    for document in corpus.documents:
        counts.update(window for window in _windows(_words(plain(document.text))) if window in wanted)
    return counts
