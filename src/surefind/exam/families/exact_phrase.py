"""`exact_phrase`: six words in a row that stand nowhere else, the rarest of their sentence. Gold: that sentence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from surefind.exam._corpus import Candidate, Corpus, plain, terms

LENGTH = 6
_WORD = re.compile(r"[$€£]?\w+(?:[-.,:/*'’&@]\w+)*(?:\(\w{1,3}\))*%?")


def exact_phrase(corpus: Corpus) -> Iterator[Candidate]:
    found = []
    for document in corpus.documents:
        for start, end in (span for section in corpus.sections(document) for span in section.sentences):
            words = _WORD.findall(plain(document.text[start:end]))
            if len(words) > LENGTH + 2:
                phrase = max(_windows(words), key=lambda window: (_rarity(corpus, window), window))
                found.append((phrase, document, corpus.judge(document, start, end)))
    standing = _count(corpus, {phrase for phrase, _, _ in found})
    for phrase, document, judgment in found:
        if standing[phrase] == 1:
            yield Candidate(" ".join(phrase), document.id, (judgment,))


def _windows(words: list[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(words[i : i + LENGTH]) for i in range(len(words) - LENGTH + 1))


def _rarity(corpus: Corpus, window: tuple[str, ...]) -> float:
    return sum(corpus.idf.get(term, 0.0) for term in set(terms(" ".join(window))))


def _count(corpus: Corpus, wanted: set[tuple[str, ...]]) -> Counter[tuple[str, ...]]:
    """How often each phrase stands in the whole corpus."""
    counts: Counter[tuple[str, ...]] = Counter()
    for document in corpus.documents:
        counts.update(window for window in _windows(_WORD.findall(plain(document.text))) if window in wanted)
    return counts
