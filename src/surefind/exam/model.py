"""The parts of an exam: queries and judgments.

A judgment points at characters of a document (or at the whole document), never at chunks. The relevance of a chunk
follows from the characters it covers. So every chunker, fusion and reranker is measured on the same exam.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True, slots=True)
class Judgment:
    document: str
    start: int | None = None
    """Offset of the first character; None if the whole document is the gold."""
    end: int | None = None
    grade: int = 1
    quote: str = ""
    """The beginning of the passage, used to find it again after the document was edited."""

    @property
    def is_span(self) -> bool:
        return self.start is not None


@dataclass(frozen=True, slots=True)
class ExamQuery:
    id: str
    text: str
    judgments: tuple[Judgment, ...]
    family: str = "questions"
    overlap: float | None = None
    """The share of the query's content words that are in its gold passage (`overlap`); None if it is not known."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


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
    gold = []
    for j in query.judgments:
        span = {"start": j.start, "end": j.end, "quote": j.quote} if j.is_span else {}
        gold.append({"document": j.document, **span, "grade": j.grade})
    row: dict[str, Any] = {"id": query.id, "query": query.text, "family": query.family, "gold": gold}
    if query.overlap is not None:
        row["overlap"] = round(query.overlap, 4)
    return {**row, "metadata": dict(query.metadata)} if query.metadata else row


def query_from_json(row: Mapping[str, Any]) -> ExamQuery:
    judgments = tuple(
        Judgment(g["document"], g.get("start"), g.get("end"), g.get("grade", 1), g.get("quote", ""))
        for g in row["gold"]
    )
    return ExamQuery(
        row["id"], row["query"], judgments, row.get("family", "questions"), row.get("overlap"), row.get("metadata", {})
    )
