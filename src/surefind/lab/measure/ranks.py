"""Rank measures over gains, for a whole exam at once. The names are those of ir_measures: `nDCG@10`.

    nDCG@k     Σ_{r<=k} g_r / log2(r+1), divided by the same sum for the ideal order (Järvelin and Kekäläinen 2002)
    RR@k       1 / rank of the first relevant item within k, else 0
    AP@k       Σ_{r<=k, relevant} precision at r, divided by the number of relevant items
    R@k        relevant items within k / relevant items
    P@k        relevant items within k / k
    Success@k  1 if any relevant item is within k
    All@k      1 if every relevant item is within k, for questions that need several passages

The text form of a measure (`R@5:chunk`, `T1EM`) identifies it and can be parsed back. A query without relevant items
scores 0. Gains are the grades themselves, as in trec_eval. A judgment is a document or a span of one; the gain of a
ranked chunk depends on the level:

- `document`: documents are ranked, each at the rank of its first chunk; a document gains its grade.
- `span`: a chunk gains the grades of the gold spans it covers (at least half of the span), except spans that a
  better-ranked chunk covers. So finding the same passage twice counts once.
- `chunk`: every chunk that covers half of a gold span (or has half of its own text in one) gains that grade, even if an
  earlier chunk gained it, too.

A whole-document judgment is a span from the first to the last character: at `span` level any chunk of the document
covers it, at `chunk` level all of its chunks are relevant.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from surefind.base.errors import SpecError, choices, closest
from surefind.base.types import PAD, BoolArray, Floats, Rankings
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

    def unjudged(self, rankings: Rankings, k: int) -> Floats:
        """Of the first k documents of each query, the share that its judgments do not name. An exam counts them as
        wrong, though nobody may have looked at them."""
        documents, judged, _, _ = self._judged(self.places.located(rankings))
        there = documents[:, :k] >= 0
        return np.asarray((there & ~judged[:, :k]).sum(axis=1) / np.maximum(there.sum(axis=1), 1), dtype=np.float64)

    def _documents(self, rankings: Rankings) -> Gains:
        _, judged, grades, ideal = self._judged(rankings)
        gains = np.where(judged, grades, 0.0)
        return Gains(gains, (gains > 0).astype(np.float64), ideal)

    def _judged(self, rankings: Rankings) -> tuple[Ints, BoolArray, Floats, Floats]:
        """The ranked documents, whether each is judged, its grade if so, and the ideal gains."""
        there = rankings.ids != PAD
        documents = np.where(there, self.places.documents[np.where(there, rankings.ids, 0)], -1)
        documents = _first_of_each(documents)
        if "document" not in self._items:
            self._items["document"] = self._graded_documents()
        keys, grades, ideal = self._items["document"]
        if not len(keys):
            return documents, np.zeros_like(documents, dtype=np.bool_), np.zeros(documents.shape), ideal
        wanted = documents + np.arange(len(documents))[:, None] * len(self.places.numbers)
        at = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
        return documents, (documents >= 0) & (keys[at] == wanted), grades[at], ideal

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


def _cut(table: Floats, k: int) -> Floats:
    """Cuts or pads a table to exactly k columns."""
    return np.pad(table[:, :k], ((0, 0), (0, max(0, k - table.shape[1]))))


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def ndcg(judged: Gains, k: int) -> Floats:
    discount = 1 / np.log2(np.arange(2, k + 2))
    # One chunk may cover two gold spans, so the gain can exceed that of the ideal order of single items; 1 is the most.
    return np.minimum(_ratio(_cut(judged.gains, k) @ discount, _cut(judged.ideal, k) @ discount), 1.0)


def reciprocal_rank(judged: Gains, k: int) -> Floats:
    hits = _cut(judged.gains, k) > 0
    return np.asarray(np.where(hits.any(axis=1), 1 / (hits.argmax(axis=1) + 1), 0.0))


def average_precision(judged: Gains, k: int) -> Floats:
    hits = (_cut(judged.gains, k) > 0).astype(np.float64)
    precision = np.cumsum(hits, axis=1) / np.arange(1, k + 1)
    return _ratio(np.asarray((precision * hits).sum(axis=1)), judged.relevant)


def recall(judged: Gains, k: int) -> Floats:
    return _ratio(np.asarray(_cut(judged.found, k).sum(axis=1)), judged.relevant)


def precision(judged: Gains, k: int) -> Floats:
    return np.asarray((_cut(judged.gains, k) > 0).sum(axis=1) / k)


def success(judged: Gains, k: int) -> Floats:
    return np.asarray((_cut(judged.gains, k) > 0).any(axis=1), dtype=np.float64)


def all_relevant(judged: Gains, k: int) -> Floats:
    return np.asarray(recall(judged, k) >= 1, dtype=np.float64)


MEASURES = {
    "nDCG": ndcg,
    "RR": reciprocal_rank,
    "AP": average_precision,
    "R": recall,
    "P": precision,
    "Success": success,
    "All": all_relevant,
}


SPAN_MEASURES = ("T1EM", "T5EM", "T1C", "BC", "AC", "MC", "MRR", "AT1S", "T1O", "BO", "AO")
"""The eleven gold-span measures; `spans.py` defines them."""

OVERLAP_MEASURES = ("SpanR", "SpanP", "IoU")
"""Measures of how much of the gold text is retrieved, and how much other text; `overlap.py` defines them."""

_TEXTUAL = (*SPAN_MEASURES, *OVERLAP_MEASURES)
_LEVELS = ("document", "span", "chunk")
_RANKED = re.compile(r"([A-Za-z][A-Za-z0-9]*)@(\d+)(?::(\w+))?")
_WRITTEN = re.compile(r"([A-Za-z](?:\w*[^\W\d])?)@?(\d*)(:\w+)?")
"""Anything like a measure: `ndcg10`, `ndgc@10`, `recal@5:span`."""
_MAX_RANK_DIGITS = 9
_ALIASES = {"ndcg": "nDCG", "mrr": "RR", "map": "AP", "recall": "R", "precision": "P"}


@dataclass(frozen=True, slots=True)
class Measure:
    name: str
    k: int = 5
    """The rank at which rankings are cut off; for gold-span measures, how many chunks count as retrieved."""
    level: Level = "document"

    @property
    def of_spans(self) -> bool:
        return self.name in _TEXTUAL

    def __str__(self) -> str:
        if self.of_spans:
            return self.name if self.k == 5 and self.name in SPAN_MEASURES else f"{self.name}@{self.k}"
        return f"{self.name}@{self.k}" + ("" if self.level == "document" else f":{self.level}")


def parse_measure(text: str) -> Measure:
    if text in SPAN_MEASURES:
        return Measure(text)
    match = _RANKED.fullmatch(text.strip())
    if match:
        name, k, level = match.groups()
        name = name if name in _TEXTUAL else _ALIASES.get(name.lower(), name)
        known = next((known for known in (*MEASURES, *_TEXTUAL) if known.lower() == name.lower()), None)
        if known in _TEXTUAL and level:
            raise SpecError(f"{text!r}: {known} compares texts and has no level. Write {known}@{k}.")
        if len(k) > _MAX_RANK_DIGITS:
            raise SpecError(f"{text[:40]!r}…: the rank is too large. Write it like {known or 'nDCG'}@10.")
        if known and int(k) > 0 and level in (None, *_LEVELS):
            return Measure(known, int(k), cast(Level, level or "document"))
        if known and level:
            raise SpecError(f"{text!r}: there is no level {level!r}. {choices(level, _LEVELS)}")
    names = [*(f"{name}@k" for name in MEASURES), *SPAN_MEASURES, *(f"{name}@k" for name in OVERLAP_MEASURES)]
    raise SpecError(f"There is no measure {text!r}. {choices(text, names, _meant(text.strip()))}")


def _meant(text: str) -> str:
    """The measure that was probably meant, as it is written: `ndgc@5` -> `nDCG@5`."""
    match = _WRITTEN.fullmatch(text)
    if not match:
        return ""
    name, k, level = match.groups()
    near = closest(name, (*MEASURES, *_TEXTUAL, *_ALIASES))
    near = _ALIASES.get(near, near)
    if not near or (near in SPAN_MEASURES and not k):
        return near
    return f"{near}@{k or 10}" + (level if level and level[1:] in _LEVELS and near not in _TEXTUAL else "")
