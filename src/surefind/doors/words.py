"""The words of a query in a text, for every interface that emphasises them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from surefind.base.text.fold import fold
from surefind.base.text.scripts import CLUSTER, HANGUL, MARKS, UNSPACED, UNSPACED_RUN, pattern
from surefind.engine.analyze.english import COMMON

_RUN = (
    rf"(?P<pairs>{UNSPACED_RUN}|[{HANGUL}]+)|(?P<words>[^\W{UNSPACED}{HANGUL}]+(?:[{MARKS}]+[^\W{UNSPACED}{HANGUL}]*)*)"
)
_UNIT = rf"{CLUSTER}|[{HANGUL}]"


def sought(query: str) -> frozenset[str]:
    """The keys to emphasise in hits: the query's words of three letters or more, without words such as "the". In
    scripts without spaces between words, the keys are pairs of characters, or a single character that has no
    neighbour."""
    return frozenset(key for _, _, key in pieces(query) if key not in COMMON and (len(key) > 2 or not key.isascii()))


def pieces(text: str, singly: bool = False) -> Iterator[tuple[int, int, str]]:
    """Yields each word or pair of characters as (start, end, key to compare); if `singly`, also each character."""
    for run in pattern(_RUN).finditer(text):
        start, word = run.start(), run.group()
        if run.lastgroup == "words":
            yield start, run.end(), fold(word).lower()
            continue
        units = [(start + unit.start(), start + unit.end()) for unit in pattern(_UNIT).finditer(word)]
        spans = [(a, end) for (a, _), (_, end) in pairwise(units)]
        for a, end in (*spans, *units) if singly or not spans else spans:
            yield a, end, text[a:end]
