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
from typing import Any, Literal

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
