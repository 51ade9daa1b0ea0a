"""Reads and writes JSONL and CSV files of questions with gold passages or gold files.

JSONL: {"id", "query", "family", "gold": [{"document", "text" or "start"+"end", "grade", "role"}], "segments": [{…}]}; a
flat row {"query", "document", "text"} is accepted, too. CSV: the columns query and document, and optionally id, text,
start, end, grade, gold_role and family. Rows with the same id (or, without ids, the same query) are one question. The
role is answer or support. A CSV row with the role segment is a passage that the question was written from.

A question without an id gets one derived from its words, so that adding rows above it does not change its id.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from surefind.base.errors import ExamError
from surefind.lab.exam.formats.library import Complaints, Library, read_row, read_text
from surefind.lab.exam.model import Exam, ExamQuery, Judgment, query_to_json

_FIELDS = (
    "id", "query", "question", "family", "gold", "document", "text", "start", "end", "grade", "gold_role",
    "segments", "overlap", "quote",
)  # fmt: skip
_SEGMENT = "segment"
"""The role of a CSV row that is a segment, not a judgment."""


def read_table(path: Path, library: Library, name: str = "") -> Exam:
    complaints = Complaints(path)
    rows: dict[str, tuple[Mapping[str, Any], list[Judgment], list[Judgment]]] = {}
    for number, row in _rows(path, complaints):
        try:
            if None in row:
                raise ExamError("it has more cells than the header has columns")
            text = str(row.get("query") or row.get("question") or "").strip()
            if not text:
                raise ExamError("it has no query")
            golds = row["gold"] if "gold" in row else [{**row, "role": row.get("gold_role")}]
            judgments = [_judgment(gold, library) for gold in golds if gold.get("role") != _SEGMENT]
            written = [*row.get("segments", ()), *(gold for gold in golds if gold.get("role") == _SEGMENT)]
            segments = [_judgment({**segment, "role": ""}, library) for segment in written]
            if not golds:
                raise ExamError("it has no gold")
        except (ExamError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            complaints.add(number, f"no {error}" if isinstance(error, KeyError) else str(error))
            continue
        query_id = str(row.get("id") or id_of(text))
        if query_id in rows and rows[query_id][0]["query"] != text:
            complaints.add(number, f"another question already has the id {query_id!r}")
            continue
        known = rows.setdefault(query_id, ({**row, "id": query_id, "query": text}, [], []))
        known[1].extend(judgments)
        known[2].extend(segments)
    complaints.refuse()
    if not rows:
        raise ExamError(f"{path} contains no questions.")
    queries = tuple(_query(*question, library) for question in rows.values())
    return Exam(name or path.stem, queries, origin=f"import {path.name}")


def _query(row: Mapping[str, Any], gold: list[Judgment], segments: list[Judgment], library: Library) -> ExamQuery:
    extra = {key: value for key, value in row.items() if key not in _FIELDS and value not in (None, "")}
    metadata = {**extra.pop("metadata", {}), **extra} if isinstance(extra.get("metadata", {}), dict) else extra
    return library.query(row["id"], row["query"], gold, str(row.get("family") or "questions"), metadata, segments)


def id_of(text: str) -> str:
    """Returns the id of a question that has none: a hash of its words."""
    return f"q-{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


def _judgment(gold: Mapping[str, Any], library: Library) -> Judgment:
    start, end, grade = (
        int(gold[key]) if gold.get(key) not in (None, "") else None for key in ("start", "end", "grade")
    )
    role = gold.get("role") or "answer"
    return library.judge(gold["document"], gold.get("text") or "", start, end, 1 if grade is None else grade, role)


def _rows(path: Path, complaints: Complaints) -> Iterator[tuple[int, Mapping[str, Any]]]:
    text = read_text(path, "utf-8-sig")
    if path.suffix.lower() == ".csv":
        reader = csv.DictReader(io.StringIO(text))
        missing = {"document"} - set(reader.fieldnames or ())
        if missing:
            raise ExamError(
                f"{path} needs the columns query and document; it has: {', '.join(reader.fieldnames or ['none'])}."
            )
        for row in reader:
            yield reader.line_num, row
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                row = read_row(line)
            except ValueError as error:
                complaints.add(number, f"not JSON ({error})")
                continue
            if isinstance(row, dict):
                yield number, row
            else:
                complaints.add(number, "not a JSON object")


def write_csv(exam: Exam, path: Path) -> None:
    """Writes one row per judgment and segment; reading the file back gives the same questions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "query", "family", "document", "start", "end", "grade", "gold_role"])
        for query in exam.queries:
            rows = [(j, j.role) for j in query.judgments] + [(j, _SEGMENT) for j in query.segments]
            writer.writerows(
                [query.id, query.text, query.family, j.document, j.start, j.end, j.grade, role] for j, role in rows
            )


def write_jsonl(exam: Exam, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(json.dumps(query_to_json(query), ensure_ascii=False) + "\n" for query in exam.queries), encoding="utf-8"
    )
