"""Measures what `surefind ask` quotes: whether a quote has the answer, how close it is, and what its confidence says.

For a quote q of a document, and gold spans g of an exam:

    right   some g of the same document is contained in q (letter for letter, white space folded), or at least half of
            the characters of q lie inside g. The first is for gold that is shorter than a quote, the second for longer
    F1      2·shared / (|q| + |g|), shared = Σ_w min(count of w in q, in g), over lower-cased words; the best g counts
            (Rajpurkar et al., SQuAD, 2016)

The n questions in the order of their confidence, the surest first; e_i of the first i are wrong:

    risk    e_i / i at coverage i / n
    AURC    (1/n) · Σ_i e_i / i: the area under the curve of risks; 0 is best
            (Geifman, Uziel and El-Yaniv, Bias-Reduced Uncertainty Estimation, 2019)
    half    1 - e_i / i for i = ⌈n/2⌉: how often the surer half is right

Questions that are equally sure share their mean, since no order of them is the right one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from surefind.base.text.scripts import words
from surefind.base.types import BoolArray, Floats, Hit
from surefind.lab.exam.model import Judgment

MIN_INSIDE = 0.5
"""The share of a quote that lies inside longer gold, at least."""


def is_right(quote: str, hit: Hit, gold: Judgment, gold_text: str) -> bool:
    """Returns whether a quote of a hit has the answer. `gold_text` is the text of the gold span."""
    if hit.document != gold.document or gold.start is None or gold.end is None:
        return False
    folded = _folded(gold_text)
    return bool(folded) and (folded in _folded(quote) or _share_inside(quote, hit, gold.start, gold.end) >= MIN_INSIDE)


def _share_inside(quote: str, hit: Hit, start: int, end: int) -> float:
    """The share of the quote's characters inside a span of its document; of several places of the quote, the best."""
    places = [(hit.start + a, hit.start + b) for a, b in _places(_folded(quote), hit.text)]
    return max((max(0, min(b, end) - max(a, start)) / (b - a) for a, b in places), default=0.0)


def _places(folded: str, text: str) -> Iterator[tuple[int, int]]:
    """Yields where a text has these words, whatever white space is between them."""
    kept = [at for at, letter in enumerate(text) if not letter.isspace() or (at and not text[at - 1].isspace())]
    plain = "".join(" " if text[at].isspace() else text[at] for at in kept)
    at_plain = plain.find(folded) if folded else -1
    while at_plain >= 0:
        yield kept[at_plain], kept[at_plain + len(folded) - 1] + 1
        at_plain = plain.find(folded, at_plain + len(folded))


def token_f1(quote: str, golds: Sequence[str]) -> float:
    """The F1 of the quote's words and those of the gold text that is closest to it."""
    return max((_f1(Counter(words(quote)), Counter(words(gold))) for gold in golds), default=0.0)


def _f1(left: Counter[str], right: Counter[str]) -> float:
    return 2 * (left & right).total() / max(1, left.total() + right.total())


def risks(wrong: Floats) -> Floats:
    """The risk at each coverage 1/n, 2/n … 1, of questions in the order of `by_confidence`."""
    return np.cumsum(wrong) / np.arange(1, len(wrong) + 1)


def aurc(wrong: Floats) -> float:
    """The area under the curve of risks."""
    return float(risks(wrong).mean())


def precision_at_half(wrong: Floats) -> float:
    """How often the surer half is right."""
    return float(1 - wrong[: (len(wrong) + 1) // 2].mean())


def by_confidence(confidence: Floats, right: BoolArray) -> tuple[NDArray[np.int64], Floats]:
    """Returns the places of the questions, the surest first, and in this order how wrong each is: 0 or 1, or the mean
    of those that are equally sure."""
    order = np.argsort(-confidence, kind="stable")
    _, group, sizes = np.unique(confidence, return_inverse=True, return_counts=True)
    wrong = np.bincount(group, weights=~right) / sizes
    return order, wrong[group][order]


def _folded(text: str) -> str:
    return " ".join(text.split())
