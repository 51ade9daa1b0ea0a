"""Reads the text and the JSON of files that somebody else may have written.

Code that importers share: finding documents and passages, and collecting all bad rows before raising an error.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from surefind.base.errors import ExamError
from surefind.base.types import Document
from surefind.lab.exam.model import ROLES, ExamQuery, Judgment
from surefind.lab.exam.overlap import overlap


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Returns the text of a file. Raises `ExamError` if it cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding=encoding)
    except UnicodeDecodeError as error:
        raise ExamError(f"{path} is not UTF-8 text (byte {error.start + 1}). Save it as UTF-8.") from None
    except OSError as error:
        raise ExamError(f"{path} cannot be read ({error.strerror}). Check the path.") from None


def read_row(text: str) -> Any:
    """Returns the value of a line of JSON that an exam will store. Raises `ValueError` as `read_json` does, and if a
    text in it cannot be stored: JSON can spell half of a character (`\\ud83d`)."""
    row = read_json(text)
    if "\\u" in text:
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"it contains half of a character, {error.object[error.start]!r}") from None
    return row


def read_json(text: str) -> Any:
    """Returns the value of a JSON text. Raises `ValueError` if it is not JSON, or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


_MAX_LISTED = 10
_QUOTE = 80


class Complaints:
    """Collects bad rows by line number; `refuse` raises an error if there are any."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []

    def add(self, line: int, reason: str) -> None:
        self.lines.append(f"  line {line}: {reason}")

    def refuse(self) -> None:
        if not self.lines:
            return
        more = f"\n  … and {len(self.lines) - _MAX_LISTED} more" if len(self.lines) > _MAX_LISTED else ""
        shown = "\n".join(self.lines[:_MAX_LISTED])
        raise ExamError(f"{self.path} has {len(self.lines)} bad rows, so nothing was imported:\n{shown}{more}")


class Library:
    """The documents that judgments may point at."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._by_id = {document.id: document for document in documents}
        self._by_name: dict[str, list[str]] = defaultdict(list)
        for query_id in self._by_id:
            self._by_name[Path(query_id).name].append(query_id)

    def find(self, name: str) -> Document:
        """Finds a document by its id, or by a file name that only one document has."""
        if name in self._by_id:
            return self._by_id[name]
        names = sorted(set(self._by_name.get(Path(name).name, [])))
        if len(names) == 1:
            return self._by_id[names[0]]
        if len(names) > 1:
            raise ExamError(f"the document {name!r} could be any of {', '.join(names[:3])}")
        raise ExamError(f"there is no document {name!r} in the knowledge base")

    def judge(
        self,
        name: str,
        text: str = "",
        start: int | None = None,
        end: int | None = None,
        grade: int = 1,
        role: str = "answer",
    ) -> Judgment:
        """A judgment of a span, given by its offsets or its exact text, or of the whole document."""
        document = self.find(name)
        if grade < 0:
            raise ExamError(f"the grade {grade} of {name!r} is negative")
        if role not in ROLES:
            raise ExamError(f"the role {role!r} of {name!r} is not one of: {', '.join(ROLES)}")
        if start is None and not text:
            return Judgment(document.id, grade=grade, role=role)
        if start is None:
            start = document.text.find(text)
            if start < 0:
                raise ExamError(f"{name!r} does not contain the passage {text[:60]!r}")
            if document.text.find(text, start + 1) >= 0:
                raise ExamError(f"{name!r} contains the passage {text[:60]!r} more than once; give start and end")
            end = start + len(text)
        if end is None or not 0 <= start < end <= len(document.text):
            raise ExamError(f"the span {start}–{end} is not inside {name!r} ({len(document.text)} characters)")
        if text and document.text[start:end] != text:
            raise ExamError(f"the text of {name!r} at {start}–{end} is not {text[:60]!r}")
        return Judgment(document.id, start, end, grade, document.text[start:end][:_QUOTE], role)

    def query(
        self,
        query_id: str,
        text: str,
        judgments: Sequence[Judgment],
        family: str = "questions",
        metadata: Mapping[str, Any] | None = None,
        segments: Sequence[Judgment] = (),
    ) -> ExamQuery:
        gold = [j for j in judgments if j.grade > 0]
        shared = [overlap(text, self._by_id[j.document].text, j.start, j.end) for j in gold]
        known = metadata or {}
        return ExamQuery(query_id, text, tuple(judgments), family, max(shared, default=None), known, tuple(segments))
