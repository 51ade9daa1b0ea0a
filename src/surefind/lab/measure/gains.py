"""Converts rankings of chunks to gains by rank, the input of every rank measure.

A judgment is a document or a span of one. The gain of a ranked chunk depends on the level:

- `document`: documents are ranked, each at the rank of its first chunk; a document gains its grade.
- `span`: a chunk gains the grades of the gold spans it covers (at least half of the span), except spans that a
  better-ranked chunk covers. So finding the same passage twice counts once.
- `chunk`: every chunk that covers half of a gold span (or has half of its own text in one) gains that grade, even if an
  earlier chunk gained it, too.

A whole-document judgment is a span from the first to the last character: at `span` level any chunk of the document
covers it, at `chunk` level all of its chunks are relevant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from surefind.base.types import PAD, Floats, Rankings
from surefind.lab.exam.model import ExamQuery, Judgment

Level = Literal["document", "span", "chunk"]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ChunkSpans:
    """The location of each chunk: document number, start, end."""

    documents: Ints
    starts: Ints
    ends: Ints
    numbers: dict[str, int]
    """Document id -> number."""
    at: Callable[[Any], Ints] = np.asarray
    """Converts the ids of rankings to places in these arrays; the identity if rankings already hold places."""

    def located(self, rankings: Rankings) -> Rankings:
        return replace(rankings, ids=self.at(rankings.ids))


@dataclass(frozen=True)
class Gains:
    """`gains[q, r]`: the gain of rank r+1 for query q; `found[q, r]`: how many relevant items it has (a chunk may cover
    two gold spans); `ideal[q]`: all possible gains, greatest first."""

    gains: Floats
    found: Floats
    ideal: Floats

    @property
    def relevant(self) -> Floats:
        """How many relevant items each query has."""
        return np.asarray((self.ideal > 0).sum(axis=1), dtype=np.float64)


class Judge:
    """Converts rankings to gains by the judgments of an exam, for one layout."""

    def __init__(self, queries: Sequence[ExamQuery], places: ChunkSpans) -> None:
        self.places = places
        self._queries = queries
        self._items: dict[str, Any] = {}

    def gains(self, rankings: Rankings, level: Level) -> Gains:
        rankings = self.places.located(rankings)
        if level == "document":
            return self._documents(rankings)
        return self._spans(rankings) if level == "span" else self._chunks(rankings)

    def relevant(self, q: int, chunk_id: int, level: Level) -> bool:
        """Whether one chunk is relevant to query q: by its document, or because it covers a gold span."""
        ordinal = int(self.places.at(chunk_id))
        judgments = [j for j in self._queries[q].judgments if j.grade > 0]
        if level == "document":
            return any(self.places.numbers.get(j.document) == self.places.documents[ordinal] for j in judgments)
        return any(self._covers(ordinal, j) for j in judgments)

    # ------------------------------------------------------------ documents

    def _documents(self, rankings: Rankings) -> Gains:
        there = rankings.ids != PAD
        documents = np.where(there, self.places.documents[np.where(there, rankings.ids, 0)], -1)
        documents = _first_of_each(documents)
        if "document" not in self._items:
            self._items["document"] = self._graded_documents()
        keys, grades, ideal = self._items["document"]
        wanted = documents + np.arange(len(documents))[:, None] * len(self.places.numbers)
        at = np.searchsorted(keys, wanted).clip(max=max(len(keys) - 1, 0))
        hit = (documents >= 0) & (keys[at] == wanted) if len(keys) else np.zeros_like(documents, dtype=np.bool_)
        gains = np.where(hit, grades[at] if len(keys) else 0.0, 0.0)
        return Gains(gains, (gains > 0).astype(np.float64), ideal)

    def _graded_documents(self) -> tuple[Ints, Floats, Floats]:
        """Sorted (query, document) keys with their grades, and the ideal gains."""
        pairs: dict[int, float] = {}
        rows: list[list[float]] = []
        for q, query in enumerate(self._queries):
            best: dict[int, float] = {}
            for j in query.judgments:
                number = self.places.numbers.get(j.document, -1 - len(best))
                best[number] = max(best.get(number, 0.0), float(j.grade))
            rows.append(list(best.values()))
            pairs.update(
                {q * len(self.places.numbers) + number: grade for number, grade in best.items() if number >= 0}
            )
        keys = np.array(sorted(pairs), dtype=np.int64)
        return keys, np.array([pairs[int(key)] for key in keys], dtype=np.float64), _ideal(rows)

    # ------------------------------------------------------------ spans

    def _spans(self, rankings: Rankings) -> Gains:
        gains, found = np.zeros(rankings.ids.shape), np.zeros(rankings.ids.shape)
        for q, query in enumerate(self._queries):
            ordinals, _ = rankings.row(q)
            seen: set[int] = set()
            for r, ordinal in enumerate(ordinals.tolist()):
                for i, j in enumerate(query.judgments):
                    if i not in seen and self._covers(ordinal, j):
                        seen.add(i)
                        gains[q, r] += j.grade
                        found[q, r] += j.grade > 0
        rows = [[float(j.grade) for j in query.judgments] for query in self._queries]
        return Gains(gains, found, _ideal(rows))

    def _covers(self, ordinal: int, j: Judgment) -> bool:
        p = self.places
        if p.documents[ordinal] != p.numbers.get(j.document, -1):
            return False
        if j.start is None or j.end is None:
            return True
        shared = min(p.ends[ordinal], j.end) - max(p.starts[ordinal], j.start)
        return bool(shared * 2 >= j.end - j.start)

    # ------------------------------------------------------------ chunks

    def _chunks(self, rankings: Rankings) -> Gains:
        if "chunk" not in self._items:
            self._items["chunk"] = [self._relevant_chunks(query) for query in self._queries]
        relevant: list[dict[int, float]] = self._items["chunk"]
        gains = np.zeros(rankings.ids.shape)
        for q, grades in enumerate(relevant):
            row = rankings.ids[q].tolist()
            gains[q] = [grades.get(ordinal, 0.0) for ordinal in row]
        return Gains(gains, (gains > 0).astype(np.float64), _ideal([list(grades.values()) for grades in relevant]))

    def _relevant_chunks(self, query: ExamQuery) -> dict[int, float]:
        p = self.places
        relevant: dict[int, float] = {}
        for j in query.judgments:
            for ordinal in self._of_document.get(p.numbers.get(j.document, -1), ()):
                if j.start is not None and j.end is not None:
                    shared = min(p.ends[ordinal], j.end) - max(p.starts[ordinal], j.start)
                    if shared * 2 < min(j.end - j.start, p.ends[ordinal] - p.starts[ordinal]):
                        continue
                relevant[ordinal] = max(relevant.get(ordinal, 0.0), float(j.grade))
        return relevant

    @property
    def _of_document(self) -> dict[int, list[int]]:
        if "of_document" not in self._items:
            table: dict[int, list[int]] = defaultdict(list)
            for ordinal, document in enumerate(self.places.documents.tolist()):
                table[document].append(ordinal)
            self._items["of_document"] = table
        by_document: dict[int, list[int]] = self._items["of_document"]
        return by_document


def _first_of_each(documents: Ints) -> Ints:
    """Removes repetitions from each row, keeps the order, and fills the end with -1."""
    order = np.argsort(documents, axis=1, kind="stable")
    ordered = np.take_along_axis(documents, order, 1)
    again = np.zeros(documents.shape, np.bool_)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    repeated = np.zeros_like(again)
    np.put_along_axis(repeated, order, again, 1)
    kept = np.where(repeated, -1, documents)
    close = np.argsort(kept < 0, axis=1, kind="stable")
    return np.take_along_axis(kept, close, 1)


def _ideal(rows: Sequence[Sequence[float]]) -> Floats:
    width = max(map(len, rows), default=0)
    table = np.zeros((len(rows), width))
    for q, row in enumerate(rows):
        table[q, : len(row)] = sorted(row, reverse=True)
    return table
