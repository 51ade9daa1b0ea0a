"""Finds the sentence of each hit that shares most with the query, for people and programs to read first.

    score(s) = Σ idf(t) / (1 + 0.375 · (|s| / mean |s| - 1))      over the terms t of the query that the sentence has

idf counts the sentences of all hits, so that a word of every sentence weighs little. No index is read.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from surefind.analyze.english import English
from surefind.text.sentences import sentence_spans

_BREAK = re.compile(r"\n(?:[ \t]*\n|(?=[ \t]*(?:[-*+#|>]|\d{1,4}[.)])\s*\S))")
"""Where a sentence ends in Markdown without a stop: before a blank line, a list item, a heading or a table row."""
_ANALYZER = English()
_LENGTH = 0.375
"""How much a long sentence loses against a short one."""
_LEAST, _ENDING = 3, 2
"""A word has at least the first `_LEAST` letters of its stem, and all of the stem but `_ENDING` letters."""


def best_sentences(query: str, texts: Sequence[str]) -> list[tuple[int, int] | None]:
    """Returns the span of the best sentence of each text; None for a text that has no term of the query."""
    wanted = {term for token in _ANALYZER.query_tokens(query) for term in _ANALYZER.terms(token)}
    if not wanted:
        return [None] * len(texts)
    roots = [term[: max(_LEAST, len(term) - _ENDING)] for term in wanted]
    spans = [list(_spans(text)) for text in texts]
    shared = [
        [_shared(text[start:end], wanted, roots) for start, end in cut] for text, cut in zip(texts, spans, strict=True)
    ]
    counts = Counter(term for row in shared for terms in row for term in terms)
    n = sum(map(len, spans))
    mean = sum(end - start for cut in spans for start, end in cut) / max(1, n)
    idf = {term: math.log1p((n - count + 0.5) / (count + 0.5)) for term, count in counts.items()}
    best: list[tuple[int, int] | None] = []
    for cut, row in zip(spans, shared, strict=True):
        scores = [
            sum(map(idf.__getitem__, terms)) / (1 + _LENGTH * ((end - start) / mean - 1)) if terms else 0.0
            for terms, (start, end) in zip(row, cut, strict=True)
        ]
        at = max(range(len(scores)), key=scores.__getitem__, default=0)
        best.append(cut[at] if scores and scores[at] > 0 else None)
    return best


def _shared(sentence: str, wanted: set[str], roots: Sequence[str]) -> set[str]:
    """Returns the wanted terms of a sentence. Most sentences have none, and cost only a search for the letters."""
    tokens = _ANALYZER.tokens(sentence) if not sentence.isascii() or _has(sentence, roots) else []
    near = (token for token in tokens if not token.isascii() or _has(token, roots))
    return wanted.intersection(term for token in near for term in _ANALYZER.terms(token))


def _has(text: str, roots: Sequence[str]) -> bool:
    folded = text.lower()
    return any(root in folded for root in roots)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yields the sentences of a text, without the white space around them. A heading is no sentence."""
    starts = [0, *(match.end() for match in _BREAK.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        for first, last in sentence_spans(text, start, end):
            inner = text[first:last]
            left = first + len(inner) - len(inner.lstrip())
            if inner.strip() and not inner.lstrip().startswith("#"):
                yield left, left + len(inner.strip())
