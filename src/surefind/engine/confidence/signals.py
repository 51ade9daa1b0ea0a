"""What a search shows about whether its first passage answers the query. Nothing is searched a second time.

    margin           (s_1 - s_2) / (s_1 - s_10) of the ranking before reranking: the lead of its first passage
    overlap          the share of the query's words that the first passage contains, weighted by idf

    words: here      the score that the first retriever of words (BM25) gives the first passage, as a share of the best
                     score that the query's words allow
    words: lead      1 - median / first score of its candidates

    meaning: here    the cosine that the first dense retriever gives the first passage
    meaning: spread  (first - mean) / standard deviation of the cosines of its candidates

    agreement        how many of their first ten passages the retrievers share
    same             the share of retrievers that rank the same passage first

Without a retriever of words, all words of the query weigh the same. `agreement` and `same` are read if there are both
kinds of retrievers. If a reader has read the first passages, its signals stand in place of those of words: its scores
mean the same in every collection, which those of BM25 and of vectors do not.

    first    l_1, the logit of the first passage: does it answer the query?
    others   max l_i of the others
    share    log (exp l_1 / Σ exp l_i): do others answer it as well?
    quote    the logit of the best block of the first passage (`search.quoting`)
    others'  the best one of the blocks of other passages

The reader is a cross-encoder. It reads the `READ` first passages, of each the `TOKENS` tokens that fit the query best,
and the blocks of the first three: about 0.2 s on two cores.

How sure the ranking of a query is, from its scores alone:

    max         s_1                                      the highest score (the agentic-knowledge-base study, eq. 28)
    margin      (s_1 - s_2) / (s_1 - s_10)               the lead of the first passage
    agreement   mean over d = 1 … 10 of |A_d ∩ B_d| / d  how many of their first d passages two retrievers share
    raw         mean over retrievers of 1 - b / s_1      the lead of a retriever's first score over its median one, b

`max` and `margin` read the ranking before the reranker. `agreement` and `raw` read those of the retrievers; scores
are counted from the lowest one possible. With scores that were scaled for each query, such as those of `convex`, `max`
is 1 whenever one passage is first in every ranking; `raw` keeps how high the scores are. A query with fewer than two
passages has nothing to reorder: its confidence is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, combinations
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from surefind.base import spec
from surefind.base.abilities import query_tokens
from surefind.base.protocols import Analyzer
from surefind.base.types import PAD, BoolArray, Floats, Quote, Rankings, Wording

When = Literal["max", "margin", "agreement", "raw", "predicted"]
MEASURED: tuple[When, ...] = ("max", "margin", "agreement", "raw")
OF_RETRIEVERS = frozenset({"agreement", "raw", "predicted"})
"""Measures that read the rankings of the retrievers."""
_DEPTH = 10
"""Passages that `margin` and `agreement` look at."""
_SHARES = np.array(
    [[sum(1 / d for d in range(max(i, j) + 1, _DEPTH + 1)) / _DEPTH for j in range(_DEPTH)] for i in range(_DEPTH)]
)
"""What a passage adds to `agreement` that two retrievers rank at i and j, counted from 0: it is shared from
d = max(i, j) + 1 on."""


def confidence(ranking: Rankings, retrieved: Sequence[Rankings], when: When) -> Floats:
    """The confidence in the ranking of each query, by a measure other than `predicted`."""
    if when == "max":
        values = _first(ranking)
    elif when == "margin":
        values = margin(ranking)
    elif when == "agreement":
        values = agreement(retrieved)
    else:
        values = np.asarray(np.mean([lead(ranking_of) for ranking_of in retrieved], axis=0))
    return np.where(_counts(ranking) < 2, np.inf, values)


def features(ranking: Rankings, retrieved: Sequence[Rankings]) -> Floats:
    """What the predictor reads, (queries, features): the measures, and for each retriever its first score, its lead and
    its margin."""
    columns = [_first(ranking), margin(ranking), agreement(retrieved), shared_first(ranking, retrieved)]
    for ranking_of in retrieved:
        columns += [np.log1p(_above(ranking_of)[:, 0]), lead(ranking_of), margin(ranking_of)]
    return np.stack(columns, axis=1)


def _first(ranking: Rankings) -> Floats:
    return np.where(_counts(ranking) > 0, _column(ranking.scores, 0), 0.0)


def margin(ranking: Rankings) -> Floats:
    there = ranking.ids[:, :_DEPTH] != PAD
    counts = there.sum(axis=1)
    scores = np.where(there, ranking.scores[:, :_DEPTH], 0.0).astype(np.float64)
    last = np.maximum(counts - 1, 0)
    first, second = _column(scores, 0), _column(scores, 1)
    low = np.take_along_axis(scores, last[:, None], 1)[:, 0] if scores.shape[1] else first
    spread = first - low
    return np.where((counts > 1) & (spread > 0), (first - second) / np.where(spread > 0, spread, 1.0), 0.0)


def agreement(retrieved: Sequence[Rankings]) -> Floats:
    """The mean over all pairs of retrievers; 0 if there is one retriever."""
    overlaps = [_shared(a.ids, b.ids) for a, b in combinations(retrieved, 2)]
    return np.asarray(np.mean(overlaps, axis=0)) if overlaps else np.zeros(len(retrieved[0]))


def _shared(a: NDArray[np.int64], b: NDArray[np.int64]) -> Floats:
    a, b = _wide(a), _wide(b)
    same = (a[:, :, None] == b[:, None, :]) & (a[:, :, None] != PAD)
    return np.asarray((same * _SHARES).sum(axis=(1, 2)))


def shared_first(ranking: Rankings, retrieved: Sequence[Rankings]) -> Floats:
    """The share of retrievers that rank the same passage first."""
    first = _wide(ranking.ids)[:, 0]
    return np.asarray(
        np.mean([(_wide(ranking_of.ids)[:, 0] == first) & (first != PAD) for ranking_of in retrieved], axis=0)
    )


def lead(ranking: Rankings) -> Floats:
    above, counts = _above(ranking), _counts(ranking)
    middle = np.stack([np.maximum(counts - 1, 0) // 2, counts // 2], axis=1)  # a ranking is sorted
    medians = np.take_along_axis(above, np.minimum(middle, above.shape[1] - 1), 1).mean(axis=1)
    first = _column(above, 0)
    return np.where(first > 0, 1 - medians / np.where(first > 0, first, 1.0), 0.0)


def _above(ranking: Rankings) -> Floats:
    """The scores above the lowest one possible, or above the lowest of the row if that is not known."""
    there = ranking.ids != PAD
    scores = ranking.scores.astype(np.float64)
    if not scores.shape[1]:
        return np.zeros((len(ranking), 1))
    floor: float | Floats = ranking.floor
    if not math.isfinite(ranking.floor):
        lowest = np.min(scores, axis=1, keepdims=True, where=there, initial=np.inf)
        floor = np.where(np.isfinite(lowest), lowest, 0.0)
    return np.where(there, np.maximum(scores - floor, 0.0), 0.0)


def _counts(ranking: Rankings) -> NDArray[np.int64]:
    return np.asarray((ranking.ids != PAD).sum(axis=1))


def _column(scores: NDArray[np.floating], number: int) -> Floats:
    return scores[:, number].astype(np.float64) if scores.shape[1] > number else np.zeros(len(scores))


def _wide(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first ids of each row, padded."""
    missing = _DEPTH - ids.shape[1]
    return np.pad(ids, ((0, 0), (0, missing)), constant_values=PAD) if missing > 0 else ids[:, :_DEPTH]


READ = 6
TOKENS = 128
READ_SIGNALS = ("read: first", "read: others", "read: share", "read: quote", "read: other quotes")
_NOTHING = -10.0
"""The logit of a passage that is not there."""


def reading_signals(logits: Floats, quotes: Sequence[Quote]) -> Floats:
    """Returns the signals of one query from the logits of its first passages, and from their quotes."""
    first = float(logits[0]) if len(logits) else _NOTHING
    others = float(logits[1:].max()) if len(logits) > 1 else _NOTHING
    share = first - float(np.logaddexp.reduce(logits)) if len(logits) else 0.0
    own = max((quote.logit for quote in quotes if quote.rank == 1), default=_NOTHING)
    other = max((quote.logit for quote in quotes if quote.rank > 1), default=_NOTHING)
    return np.array([first, others, share, own, other])


Kind = Literal[
    "words", "meaning", "both", "other", "words, read", "meaning, read", "both, read", "other, read"
]  # fmt: skip
"""Which retrievers the signals are from, and whether a reader read the first passages."""
_READ: dict[Kind, Kind] = {
    "words": "words, read", "meaning": "meaning, read", "both": "both, read", "other": "other, read"
}  # fmt: skip
_COMMON = ("margin", "overlap")
_WORDS = ("words: here", "words: lead")
_MEANING = ("meaning: here", "meaning: spread")
NAMES: dict[Kind, tuple[str, ...]] = {
    "words": (*_COMMON, *_WORDS),
    "meaning": (*_COMMON, *_MEANING),
    "both": (*_COMMON, *_WORDS, *_MEANING, "agreement", "same"),
    "other": _COMMON,
}
NAMES |= {
    _READ[kind]: (*(name for name in names if name not in _WORDS), *READ_SIGNALS) for kind, names in NAMES.items()
}
"""The names of the signals, in the order of the columns."""
_ANALYZER = "english"
"""Finds the words of a query if no retriever does."""
_REMEMBERED = 50_000
"""Tokens whose terms are kept, because analysing a passage would take longer than all the rest."""


def signals(
    last: Rankings,
    scored: Rankings,
    retrieved: Sequence[Rankings],
    wordings: Sequence[Sequence[Wording] | None],
    overlaps: Floats,
) -> tuple[Kind, Floats]:
    """Returns the signals of each query, (queries, signals), and their kind. `last` is the ranking whose first passage
    is judged, and `scored` the one before reranking; `retrieved` and `wordings` have one element for each retriever."""
    worded = next(((r, w) for r, w in zip(retrieved, wordings, strict=True) if w is not None), None)
    dense = next((r for r in retrieved if r.signal == "dense"), None)
    columns = [margin(scored), overlaps]
    if worded is not None:
        best = np.array([max(wording.best, 1e-9) for wording in worded[1]])
        columns += [_here(last, worded[0]) / best, lead(worded[0])]
    if dense is not None:
        columns += [_here(last, dense), _spread(dense)]
    if worded is not None and dense is not None:
        two = [worded[0], dense]  # a second encoder would make them mean something else
        columns += [agreement(two), shared_first(last, two)]
    kind: Kind = ("both" if dense else "words") if worded else ("meaning" if dense else "other")
    return kind, np.stack(columns, axis=1)


def with_reading(kind: Kind, values: Floats, read: Floats) -> tuple[Kind, Floats]:
    """Puts the signals of a reader in place of those of words, one row for each query."""
    kept = [number for number, name in enumerate(NAMES[kind]) if name not in _WORDS]
    return _READ[kind], np.concatenate([values[:, kept], read], axis=1)


def without_meaning(kind: Kind, values: Floats) -> tuple[Kind, Floats]:
    """Returns the signals that do not depend on the encoder."""
    less: Kind = "words" if kind.startswith(("both", "words")) else "other"
    less = _READ[less] if kind in _READ.values() else less
    return less, values[:, [NAMES[kind].index(name) for name in NAMES[less]]]


def overlap(query: str, passage: str, wording: Wording | None = None) -> float:
    """Returns the share of the query's words that occur in a passage, weighted if the words' weights are known."""
    name = wording.analyzer if wording else _ANALYZER
    analyzer = cast(Analyzer, spec.make("analyze", name))
    weights: Mapping[str, float]
    if wording is not None:
        weights = wording.weights
    else:
        terms = (term for token in query_tokens(analyzer, query) for term in analyzer.terms(token))
        weights = dict.fromkeys(terms, 1.0)
    if not weights:
        return 0.0
    there = set(chain.from_iterable(map(_terms_of(name), set(analyzer.tokens(passage)))))
    return sum(weight for term, weight in weights.items() if term in there) / sum(weights.values())


@cache
def _terms_of(analyzer: str) -> Callable[[str], Sequence[str]]:
    """The terms of a token, by an analyzer."""
    return lru_cache(_REMEMBERED)(cast(Analyzer, spec.make("analyze", analyzer)).terms)


def _here(last: Rankings, ranking: Rankings) -> Floats:
    """The score in `found` of the first passage of `last`; 0 if it is not there."""
    if not last.ids.shape[1]:
        return np.zeros(len(last))
    chosen: BoolArray = (ranking.ids == last.ids[:, :1]) & (ranking.ids != PAD)
    return np.asarray(np.where(chosen, ranking.scores, 0.0).sum(axis=1), np.float64)


def _spread(ranking: Rankings) -> Floats:
    there = ranking.ids != PAD
    count = np.maximum(1, there.sum(axis=1))
    scores = np.where(there, ranking.scores, 0.0).astype(np.float64)
    if not scores.shape[1]:
        return np.zeros(len(ranking))
    mean = scores.sum(axis=1) / count
    deviation = np.sqrt((np.where(there, scores - mean[:, None], 0.0) ** 2).sum(axis=1) / count)
    return np.where(deviation > 1e-9, (scores[:, 0] - mean) / np.maximum(deviation, 1e-9), 0.0)
