"""The parts of an exam: queries and judgments.

A judgment points at characters of a document (or at the whole document), never at chunks. The relevance of a chunk
follows from the characters it covers. So every chunker, fusion and reranker is measured on the same exam.

Numbers the questions of an exam by their gold document, since questions about one document are not independent.

Which questions of an exam a caller may see.

Adapts an exam to edited documents: a gold passage that moved is found again by its quoted beginning.

Splits an exam into two halves: one to tune on, one held out.

All questions about a document are in the same half. Otherwise a model could learn from one half where the answers of
the other half are, and the score on the held-out half would say nothing about documents that it has not seen.

Documents with many questions are placed first. Each goes to the half where it evens out the families. Let d(f) be the
held-out questions of family f minus its tuning questions, N(f) all of them, and n(f) those about the document. The
document is held out if Σ d(f) · n(f) / N(f)² < 0, which minimises Σ (d(f) / N(f))² step by step. If the sum is 0, the
totals decide. With fewer documents than the statistics need to count them (`measure.clusters`), each question is placed
on its own.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from surefind.base.access import Access
from surefind.engine.search.reader import Searcher

Role = Literal["answer", "support"]
"""What a gold passage does: it contains the answer, or evidence that is needed besides (two-hop questions)."""
ROLES: tuple[Role, ...] = ("answer", "support")


@dataclass(frozen=True, slots=True)
class Judgment:
    document: str
    start: int | None = None
    """Offset of the first character; None if the whole document is the gold."""
    end: int | None = None
    grade: int = 1
    quote: str = ""
    """The beginning of the passage, used to find it again after the document was edited."""
    role: Role = "answer"

    @property
    def is_span(self) -> bool:
        return self.start is not None

    @property
    def is_answer(self) -> bool:
        """Whether the passage is relevant and contains the answer."""
        return self.grade > 0 and self.role == "answer"


@dataclass(frozen=True, slots=True)
class ExamQuery:
    id: str
    text: str
    judgments: tuple[Judgment, ...]
    family: str = "questions"
    overlap: float | None = None
    """The share of the query's content words that are in its gold passage (`overlap`); None if it is not known."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    segments: tuple[Judgment, ...] = ()
    """The passages that the question was written from, if they are known; they contain the gold."""


@dataclass(frozen=True)
class Exam:
    name: str
    queries: tuple[ExamQuery, ...]
    version: int = 0
    origin: str = ""
    """The command that wrote the exam or the file it was imported from."""
    corpus: str = ""
    """The fingerprint of the documents that the exam was written from."""
    generator: int = 0
    """The version of the rules that wrote the questions (`known_item.GENERATOR`); 0 if others did."""

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the questions and judgments; the exam's name is not part of it."""
        digest = hashlib.blake2b(digest_size=8)
        for query in self.queries:
            digest.update(json.dumps(query_to_json(query), sort_keys=True, ensure_ascii=False).encode())
        return digest.hexdigest()

    def families(self) -> dict[str, int]:
        return dict(sorted(Counter(query.family for query in self.queries).items()))

    @property
    def label(self) -> str:
        return f"{self.name} v{self.version}" if self.version else self.name


def query_to_json(query: ExamQuery) -> dict[str, Any]:
    gold = [_judgment_to_json(j) for j in query.judgments]
    row: dict[str, Any] = {"id": query.id, "query": query.text, "family": query.family, "gold": gold}
    if query.segments:
        row["segments"] = [_judgment_to_json(j) for j in query.segments]
    if query.overlap is not None:
        row["overlap"] = round(query.overlap, 4)
    return {**row, "metadata": dict(query.metadata)} if query.metadata else row


def _judgment_to_json(j: Judgment) -> dict[str, Any]:
    """Without a role where it is the usual one, so that the fingerprints of earlier exams stay the same."""
    span = {"start": j.start, "end": j.end, "quote": j.quote} if j.is_span else {}
    role = {"role": j.role} if j.role != "answer" else {}
    return {"document": j.document, **span, "grade": j.grade, **role}


def query_from_json(row: Mapping[str, Any]) -> ExamQuery:
    judgments, segments = (tuple(map(_judgment_from_json, row.get(key, ()))) for key in ("gold", "segments"))
    family, metadata = row.get("family", "questions"), row.get("metadata", {})
    return ExamQuery(row["id"], row["query"], judgments, family, row.get("overlap"), metadata, segments)


def _judgment_from_json(row: Mapping[str, Any]) -> Judgment:
    place = row["document"], row.get("start"), row.get("end")
    return Judgment(*place, row.get("grade", 1), row.get("quote", ""), row.get("role", "answer"))


MIN_CLUSTERS = 10
"""Clusters that can be resampled or divided; with fewer, each question counts on its own."""


def clusters_of(queries: Sequence[ExamQuery]) -> NDArray[np.int64]:
    """A number for each query; queries with the same gold document have the same number.

    The gold document is the first judged document with the highest grade; documents with the answer come before
    supporting ones. A query without a relevant document gets a number of its own.
    """
    numbers: dict[tuple[str, int], int] = {}
    keys = [(document, -1) if (document := _gold(query)) is not None else ("", i) for i, query in enumerate(queries)]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _gold(query: ExamQuery) -> str | None:
    best = max(query.judgments, key=lambda judgment: (judgment.is_answer, judgment.grade), default=None)
    return best.document if best is not None and best.grade > 0 else None


def readable_questions(exam: Exam, reader: Searcher, access: Access) -> list[ExamQuery]:
    """Returns the questions all of whose passages the caller may read. A question about a document that is gone shows
    only to callers who may read everything: nobody knows who might have read it."""
    if access.sees_all:
        return list(exam.queries)
    admitted = set(reader.view.admitted(access))
    return [
        query
        for query in exam.queries
        if all(judgment.document in admitted for judgment in (*query.judgments, *query.segments))
    ]


def relocate(exam: Exam, texts: Mapping[str, str]) -> tuple[Exam, int]:
    """The exam with offsets into the current documents, and the number of questions left out because their passage or
    document is gone."""
    kept = [moved for query in exam.queries if (moved := _query(query, texts))]
    return replace(exam, queries=tuple(kept)), len(exam.queries) - len(kept)


def _query(query: ExamQuery, texts: Mapping[str, str]) -> ExamQuery | None:
    judgments, segments = (
        tuple(moved for j in places if (moved := locate(j, texts))) for places in (query.judgments, query.segments)
    )
    answered = any(j.is_answer for j in query.judgments)
    if not any(j.is_answer if answered else j.grade > 0 for j in judgments):
        return None
    if (judgments, segments) == (query.judgments, query.segments):
        return query
    return replace(query, judgments=judgments, segments=segments)


def locate(j: Judgment, texts: Mapping[str, str]) -> Judgment | None:
    """The judgment with offsets into these texts; None if its passage or document is not in them."""
    text = texts.get(j.document)
    if text is None:
        return None
    if j.start is None or j.end is None or not j.quote or text.startswith(j.quote, j.start):
        return j if j.end is None or j.end <= len(text) else None
    at = text.find(j.quote)
    if at < 0 or text.find(j.quote, at + 1) >= 0:
        return None
    return replace(j, start=at, end=min(len(text), at + j.end - j.start))


def held_out(queries: Sequence[ExamQuery]) -> list[bool]:
    """Whether each query is held out. The same exam is always split the same way, whatever the order of its queries."""
    out = [False] * len(queries)
    sizes = Counter(query.family for query in queries)
    ahead: Counter[str] = Counter()
    for members in _in_order(queries, _documents(queries)):
        families = Counter(queries[i].family for i in members)
        parts = [ahead[family] * count / sizes[family] ** 2 for family, count in families.items()]
        uneven = math.fsum(parts) or ahead.total()
        for i in members:
            out[i] = uneven < 0
            ahead[queries[i].family] += 1 if uneven < 0 else -1
    return out


def _documents(queries: Sequence[ExamQuery]) -> list[list[int]]:
    """The numbers of the queries about each document; of each query alone if there are few documents."""
    by_cluster: dict[int, list[int]] = defaultdict(list)
    for i, cluster in enumerate(clusters_of(queries).tolist()):
        by_cluster[cluster].append(i)
    return list(by_cluster.values()) if len(by_cluster) >= MIN_CLUSTERS else [[i] for i in range(len(queries))]


def _in_order(queries: Sequence[ExamQuery], documents: list[list[int]]) -> list[list[int]]:
    """Documents with many queries first. Among equals, the words of the queries decide."""
    return sorted(documents, key=lambda members: (-len(members), min(_lot(queries[i]) for i in members)))


def _lot(query: ExamQuery) -> bytes:
    return hashlib.blake2b(f"{query.id}\0{query.text}".encode(), digest_size=8).digest()
