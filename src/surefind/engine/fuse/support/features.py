"""Features for learned fusion: the query's words, the shape of the rankings' scores, and how far rankings agree.

- `of_words` (4): words, digits, wh-word, acronym; the agentic-knowledge-base study's simple features (3.3.3.3).
- `of_scores` (25): the four of `of_words`, the ten best scaled scores of the dense and of the other ranking, and how
  many of their ten best the two share.
- `rich`, for any number of rankings, as that study proposes for future work: shapes of the score distributions,
  overlap at several depths, the rank of each ranking's first result in the others, whether the first results are from
  the same document, how rare the words are.

Features are computed for a batch of queries, but the features of a query do not depend on the rest of the batch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba import njit
from numpy.typing import NDArray

from surefind.base.text.words import words
from surefind.base.types import PAD, Floats, Rankings, document_part
from surefind.engine.fuse.support.join import from_floor

TOP_RANKS = 10
_DEEP = 50
_DEPTHS = (1, 3, 5, 10, 50)
_WH = re.compile(r"\b(?:who|what|where|when|why|how)\b", re.IGNORECASE)
_ACRONYM = re.compile(r"\b[A-Z]{2,}")
_DIGIT = re.compile(r"\d")

WORD_NAMES = ("words", "has_digits", "has_wh_word", "has_acronym")
SCORE_NAMES = (
    *WORD_NAMES,
    *(f"dense_{i}" for i in range(1, TOP_RANKS + 1)),
    *(f"other_{i}" for i in range(1, TOP_RANKS + 1)),
    "shared_10",
)
_LOGS = np.log(np.arange(1, TOP_RANKS + 1)) - np.log(np.arange(1, TOP_RANKS + 1)).mean()
_STEPS = _LOGS / (_LOGS @ _LOGS)
"""Coefficients whose product with ten scores is the slope of the scores over the logarithm of the rank."""
_SHAPE = ("best", "mean", "std", "gap_1_2", "gap_1_10", "entropy", "slope", "found")
_TEXT = (*WORD_NAMES, "letters_per_word", "capitals", "question_mark")
_RARITY = ("idf_max", "idf_mean", "idf_min", "idf_std", "unseen")


def alpha_at(signals: Sequence[str]) -> int:
    """Which of two rankings α is the weight of: the dense one, or the second unless exactly one is dense."""
    dense = [i for i, signal in enumerate(signals) if signal == "dense"]
    return dense[0] if len(dense) == 1 else 1


# ---------------------------------------------------------------- the study's


def of_words(texts: Sequence[str]) -> Floats:
    rows = [(len(words(t)), bool(_DIGIT.search(t)), bool(_WH.search(t)), bool(_ACRONYM.search(t))) for t in texts]
    return np.array(rows, dtype=np.float64).reshape(len(texts), len(WORD_NAMES))


def of_scores(texts: Sequence[str], rankings: Sequence[Rankings]) -> Floats:
    at = alpha_at([ranking.signal for ranking in rankings])
    dense, other = rankings[at], rankings[1 - at]
    shared = _same(_head(dense, TOP_RANKS), _head(other, TOP_RANKS)).sum(axis=(1, 2))
    scaled = [_cut(from_floor(ranking), TOP_RANKS) for ranking in (dense, other)]
    return np.concatenate([of_words(texts), *scaled, shared[:, None]], axis=1)


# ---------------------------------------------------------------- richer


@dataclass(frozen=True)
class Rarity:
    """Inverse document frequencies of a corpus's words. A word that is not listed counts as unseen."""

    idf: dict[str, float]
    unseen: float

    @classmethod
    def of(cls, texts: Sequence[str], most: int = 50_000) -> Rarity:
        """Computes idf = log((N + 1) / (n + 0.5)) for the `most` most common words."""
        counts: dict[str, int] = {}
        for text in texts:
            for word in set(words(text)):
                counts[word] = counts.get(word, 0) + 1
        common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]
        n = len(texts) + 1
        return cls({word: float(np.log(n / (count + 0.5))) for word, count in common}, float(np.log(n / 0.5)))

    def save(self, path: Path) -> None:
        path.write_text(json.dumps({"unseen": self.unseen, "idf": self.idf}, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Rarity:
        data = json.loads(path.read_text(encoding="utf-8"))
        return cls(data["idf"], data["unseen"])

    def features(self, texts: Sequence[str]) -> Floats:
        table = np.zeros((len(texts), len(_RARITY)))
        for row, text in zip(table, texts, strict=True):
            values = [self.idf.get(word, self.unseen) for word in words(text)] or [0.0]
            mean = sum(values) / len(values)
            spread = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
            row[:] = max(values), mean, min(values), spread, sum(v == self.unseen for v in values) / len(values)
        return table


def rich(texts: Sequence[str], rankings: Sequence[Rankings], rarity: Rarity) -> Floats:
    parts = [of_words(texts), _of_text(texts), rarity.features(texts)]
    parts += [_shape(ranking) for ranking in rankings]
    heads = [_head(ranking, _DEEP) for ranking in rankings]
    for a in range(len(heads)):
        for b in range(a + 1, len(heads)):
            parts.append(_agreement(heads[a], heads[b]))
    return np.concatenate(parts, axis=1)


def rich_names(sources: Sequence[str]) -> list[str]:
    """The names of the columns of `rich`, for rankings from these sources."""
    labels = [name if sources.count(name) == 1 else f"{name}:{i}" for i, name in enumerate(sources, 1)]
    names = [*_TEXT, *_RARITY, *(f"{label}_{what}" for label in labels for what in _SHAPE)]
    for a, first in enumerate(labels):
        for second in labels[a + 1 :]:
            names += [f"{first}~{second}_shared_{depth}" for depth in _DEPTHS]
            names += [f"{first}_first_in_{second}", f"{second}_first_in_{first}", f"{first}~{second}_near"]
    return names


def _of_text(texts: Sequence[str]) -> Floats:
    rows = []
    for text in texts:
        parts = text.split()
        n = max(1, len(parts))
        rows.append((len(text) / n, sum(part[0].isupper() for part in parts) / n, text.rstrip().endswith("?")))
    return np.array(rows, dtype=np.float64).reshape(len(texts), 3)


def _shape(ranking: Rankings) -> Floats:
    """Describes how one ranking's scores fall off. `best` is raw; the rest is scaled from the floor to the best."""
    # One kind of array, whatever the retriever gave: for each kind the function is compiled, which takes seconds.
    scores, scaled = (np.ascontiguousarray(array, np.float64) for array in (ranking.scores, from_floor(ranking)))
    return np.asarray(_shapes(np.ascontiguousarray(ranking.ids), scores, scaled, _STEPS))


@njit(cache=True, nogil=True)
def _shapes(ids, scores, scaled, steps):  # type: ignore[no-untyped-def]
    """A row of `_SHAPE` for each query."""
    table = np.zeros((len(ids), 8))
    for q in range(len(ids)):
        filled = np.sum(ids[q] != PAD)
        if not filled:
            continue
        head = np.zeros(TOP_RANKS)  # missing results count as 0
        count = min(filled, TOP_RANKS)
        head[:count] = scaled[q, :count]
        total = head.sum()
        mean = total / count
        spread, entropy = 0.0, 0.0
        for value in head[:count]:
            share = value / max(total, 1e-12)
            spread += (value - mean) ** 2
            entropy -= share * np.log(max(share, 1e-12))
        table[q, 0], table[q, 1], table[q, 2] = scores[q, 0], mean, np.sqrt(spread / count)
        table[q, 3], table[q, 4] = head[0] - head[1], head[0] - head[TOP_RANKS - 1]
        table[q, 5], table[q, 6], table[q, 7] = entropy, np.sum(head * steps), np.log1p(filled)
    return table


def _agreement(a: NDArray[np.int64], b: NDArray[np.int64]) -> Floats:
    same = _same(a, b)
    shared = [same[:, :depth, :depth].sum(axis=(1, 2)) for depth in _DEPTHS]
    ranks = [_rank(same[:, 0, :]), _rank(same[:, :, 0])]
    both = (a[:, 0] >= 0) & (b[:, 0] >= 0)
    near = both & (document_part(a[:, 0]) == document_part(b[:, 0]))
    return np.stack([*shared, *ranks, near], axis=1).astype(np.float64)


def _rank(hits: NDArray[np.bool_]) -> Floats:
    """The log of the rank, from 1, at which a row of `hits` is first true; one beyond the end if it never is."""
    return np.asarray(np.log(np.where(hits.any(axis=1), hits.argmax(axis=1) + 1.0, hits.shape[1] + 1.0)))


def _same(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray((a[:, :, None] == b[:, None, :]) & (a[:, :, None] >= 0))


def _head(ranking: Rankings, k: int) -> NDArray[np.int64]:
    table = np.full((len(ranking), k), PAD, np.int64)
    table[:, : ranking.ids.shape[1]] = ranking.ids[:, :k]
    return table


def _cut(table: Floats, k: int) -> Floats:
    """Cuts or pads a table to exactly k columns."""
    cut = np.zeros((len(table), k))
    cut[:, : table.shape[1]] = table[:, :k]
    return cut
