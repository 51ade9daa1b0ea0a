"""BM25 as an inner product: weights of words in documents, times weights of words in the query.

    document   f(k1 + 1) / (f + k1 (1 - b + b·|d|/average))       query   idf(t) for each time t is in the query

The sum over common words is the score of `bm25`. The idf is computed for each search from the frequencies of the set
that is searched, so it is exact. The average length is in the weights of documents, and it changes with the documents.
If the true average is r times the one in the weights, every score is between 1/r and r times the exact one, because
only a part of the denominator changes, and by that factor. The collection is written again beyond `DRIFT`.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from surefind.base import spec
from surefind.base.abilities import query_tokens
from surefind.base.disk.arrays import check_length, read_array, strings
from surefind.base.protocols import Analyzer

DRIFT = 0.02
"""How far the average length may move before the weights are written again: no score is off by more than this share."""
_REMEMBERED = 1_000_000
"""Tokens whose terms are kept."""
_NO_WORD = {0: 1e-6}
"""The weights of a chunk without words: Milvus wants one, and no query asks for word 0."""


class BM25Setup(Protocol):
    """A retriever `bm25`."""

    @property
    def k1(self) -> float: ...

    @property
    def b(self) -> float: ...

    @property
    def analyzer(self) -> str: ...


class Analysis:
    """Counts the terms of texts. Each distinct token is analysed once."""

    def __init__(self, analyzer: str) -> None:
        self.spec = analyzer
        self.analyzer = cast(Analyzer, spec.make("analyze", analyzer))
        self.terms = lru_cache(_REMEMBERED)(lambda token: tuple(self.analyzer.terms(token)))

    def count(self, text: str) -> Counter[str]:
        """Counts the terms of a passage."""
        return Counter(term for token in self.analyzer.tokens(text) for term in self.terms(token))

    def asked(self, text: str) -> list[tuple[str, ...]]:
        """Returns the terms of each token of a query."""
        return [self.terms(token) for token in query_tokens(self.analyzer, text)]


@dataclass(frozen=True, eq=False)
class SetStatistics:
    """The vocabulary of a collection, and how often its words are in one set of documents.

    A word's number is its place in the vocabulary plus 1, for as long as the collection exists."""

    vocabulary: list[str]
    frequencies: NDArray[np.int64]
    """The number of chunks that have each word."""
    chunks: int
    total: int
    """The lengths of all chunks, in words."""
    average: float
    """The average length in the weights of the collection."""

    @classmethod
    def of(cls, texts: Iterable[str], analysis: Analysis) -> SetStatistics:
        """Computes the statistics of a new collection."""
        made = cls([], np.zeros(0, np.int64), 0, 0, 1.0).changed(texts, (), analysis)
        return replace(made, average=made.mean)

    def changed(self, added: Iterable[str], removed: Iterable[str], analysis: Analysis) -> SetStatistics:
        """Returns the statistics after chunks were added and removed."""
        numbers = dict(self._numbers)
        change: Counter[int] = Counter()
        chunks, total = self.chunks, self.total
        for sign, texts in ((1, added), (-1, removed)):
            for text in texts:
                counted = analysis.count(text)
                for term in counted:
                    change[numbers.setdefault(term, len(numbers) + 1)] += sign
                chunks, total = chunks + sign, total + sign * counted.total()
        frequencies = np.zeros(len(numbers), np.int64)
        frequencies[: len(self.frequencies)] = self.frequencies
        for number, difference in change.items():
            frequencies[number - 1] += difference
        return replace(self, vocabulary=list(numbers), frequencies=frequencies, chunks=chunks, total=total)

    @property
    def mean(self) -> float:
        """The average length of the chunks of this set."""
        return max(1.0, self.total / max(1, self.chunks))

    @property
    def drift(self) -> float:
        """The most by which a score can be off, as a share of it."""
        return math.expm1(abs(math.log(self.mean / self.average)))

    def document(self, retriever: BM25Setup, counted: Counter[str]) -> dict[int, float]:
        """Returns the weights of a chunk's words."""
        k1, b = retriever.k1, retriever.b
        norm = k1 * (1 - b + b * counted.total() / self.average)
        return {self._numbers[term]: f * (k1 + 1) / (f + norm) for term, f in counted.items()} or _NO_WORD

    def query(self, asked: Iterable[Sequence[str]]) -> dict[int, float]:
        """Returns the weights of a query's words; words that no chunk has are left out."""
        counted = Counter(term for terms in asked for term in terms)
        return {self._numbers[term]: times * self.idf(term) for term, times in counted.items() if self.has(term)}

    def has(self, term: str) -> bool:
        return self.frequency(term) > 0

    def frequency(self, term: str) -> int:
        number = self._numbers.get(term)
        return 0 if number is None else int(self.frequencies[number - 1])

    def idf(self, term: str) -> float:
        frequency = self.frequency(term)
        return math.log1p((self.chunks - frequency + 0.5) / (frequency + 0.5))

    def number(self, term: str) -> int:
        return self._numbers[term]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {term: i for i, term in enumerate(self.vocabulary, 1)}

    # ------------------------------------------------------------ on disk

    def save(self, folder: Path) -> None:
        np.save(folder / "frequencies.npy", self.frequencies)
        about = {"vocabulary": self.vocabulary, "chunks": self.chunks, "total": self.total, "average": self.average}
        (folder / "words.json").write_text(json.dumps(about, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> SetStatistics:
        about: dict[str, Any] = json.loads((folder / "words.json").read_text(encoding="utf-8"))
        vocabulary = strings("vocabulary", about["vocabulary"])
        frequencies = read_array(folder / "frequencies.npy", np.int64)
        check_length("frequencies", frequencies, len(vocabulary))
        return cls(vocabulary, frequencies, int(about["chunks"]), int(about["total"]), float(about["average"]))
