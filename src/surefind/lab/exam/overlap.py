"""The share of a question's content terms that are in its gold passage.

    overlap = max over windows w of WINDOW words:  |terms(question) ∩ terms(w)| / |terms(question)|

A long passage contains more of any question's words than a sentence does. So a gold passage or document that is longer
than the window is read window by window, and a shorter one with the words around it: every question of every exam is
compared with the same amount of text, whatever its gold. For the staff questions of the sample, the overlap with the
gold sentence and with its document was 17% and 63% of all words; by windows it is 39% and 50%. A window of 100 words is
a short passage of a search. In a longer one, common words of a question are found by chance.

Question words and the words of question templates ("where can I find information about …") are not counted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

from surefind.lab.exam._words import of_token, query_words, terms, words

WINDOW = 100
"""Words of a window."""
_CHARS_PER_WORD = 30
"""Characters per word that are read around a short passage."""
FRAME_WORDS = frozenset(
    "about best details explain find help information know need needs please question read show steps tell want way "
    "with".split()
)
"""Words with which templates and people make a question of a subject, besides question words."""


def content_terms(question: str) -> frozenset[str]:
    """The terms of a question without question words and words of templates; all terms if there are no others."""
    kept = [word for word in query_words(question) if word.lower() not in FRAME_WORDS]
    return frozenset(term for word in kept for term in of_token(word)) or frozenset(terms(question))


def overlap(question: str, text: str, start: int | None = None, end: int | None = None) -> float:
    """The overlap with the passage text[start:end] of a document, or with the whole document."""
    wanted = content_terms(question)
    return _best(wanted, _passage(text, start or 0, len(text) if end is None else end)) / len(wanted) if wanted else 0.0


@lru_cache(maxsize=256)  # several questions have the same gold
def _passage(text: str, start: int, end: int) -> dict[str, list[int]]:
    """Term -> the numbers of the words that contain it, of the passage and as much around it as a window needs."""
    inside = words(text[start:end])
    missing = WINDOW - len(inside)
    if missing > 0:
        before = words(text[max(0, start - WINDOW * _CHARS_PER_WORD) : start])
        after = words(text[end : end + WINDOW * _CHARS_PER_WORD])
        left = min(len(before), max(missing // 2, missing - len(after)))
        inside = before[len(before) - left :] + inside + after[: missing - left]
    places: dict[str, list[int]] = defaultdict(list)
    for at, word in enumerate(inside):
        for term in of_token(word):
            places[term].append(at)
    return dict(places)


def _best(wanted: Iterable[str], places: dict[str, list[int]]) -> int:
    """The most wanted terms in any window."""
    positions = [places[term] for term in wanted if term in places]
    starts = {at for term in positions for at in term}
    return max((sum(_within(term, start) for term in positions) for start in starts), default=0)


def _within(places: Sequence[int], start: int) -> bool:
    at = bisect_left(places, start)
    return bisect_right(places, start + WINDOW - 1) > at
