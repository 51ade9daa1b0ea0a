"""Tells which texts belong to the collections that judge, so that no model learns from them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

ALIKE = 60
"""Two passages whose first letters and digits agree for this many characters count as the same passage."""


def beginning(passage: str) -> str:
    """The first letters and digits of a passage, without a title on a line of its own."""
    return re.sub(r"[\W_]+", "", passage.rpartition("\n")[2][: 3 * ALIKE].lower())[:ALIKE]


def asked(question: str) -> str:
    return re.sub(r"[\W_]+", " ", question.lower()).strip()


@dataclass(frozen=True)
class Judges:
    passages: frozenset[str]
    questions: frozenset[str]

    @classmethod
    def of(cls, data: Path) -> Judges:
        """Reads every collection in a folder."""
        documents = [row["text"] for row in _rows(data, "corpus.jsonl")]
        questions = [row["text"] for row in _rows(data, "queries.jsonl")]
        return cls(frozenset(map(beginning, documents)), frozenset(map(asked, questions)))

    def has(self, passage: str) -> bool:
        return beginning(passage) in self.passages

    def asks(self, question: str) -> bool:
        return asked(question) in self.questions


def _rows(data: Path, name: str) -> list[dict[str, str]]:
    files = sorted(data.glob(f"*/{name}"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines() if line]
