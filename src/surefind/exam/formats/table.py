"""Reads and writes JSONL and CSV files of questions with gold passages or gold files.

JSONL: {"id", "query", "family", "gold": [{"document", "text" or "start"+"end", "grade"}]}; a flat row
{"query", "document", "text"} is accepted, too. CSV: the columns query and document, and optionally id, text, start,
end, grade and family. Rows with the same id (or, without ids, the same query) are one question.

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

from surefind.errors import ExamError
from surefind.exam.formats.files import read_row, read_text
from surefind.exam.library import Complaints, Library
from surefind.exam.model import Exam, ExamQuery, Judgment, query_to_json

_FIELDS = ("id", "query", "question", "family", "gold", "document", "text", "start", "end", "grade", "overlap", "quote")


def read_table(path: Path, library: Library, name: str = "") -> Exam:
    complaints = Complaints(path)
    found: dict[str, tuple[Mapping[str, Any], list[Judgment]]] = {}
    for number, row in _rows(path, complaints):
        try:
            if None in row:
                raise ExamError("it has more cells than the header has columns")
            text = str(row.get("query") or row.get("question") or "").strip()
            if not text:
                raise ExamError("it has no query")
            golds = row.get("gold", [row])
            judgments = [_judgment(gold, library) for gold in golds]
            if not judgments:
                raise ExamError("it has no gold")
        except (ExamError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            complaints.add(number, f"no {error}" if isinstance(error, KeyError) else str(error))
            continue
        id = str(row.get("id") or id_of(text))
        if id in found and found[id][0]["query"] != text:
            complaints.add(number, f"another question already has the id {id!r}")
            continue
        known = found.setdefault(id, ({**row, "id": id, "query": text}, []))
        known[1].extend(judgments)
    complaints.refuse()
    if not found:
        raise ExamError(f"{path} contains no questions.")
    queries = tuple(_query(row, judgments, library) for row, judgments in found.values())
    return Exam(name or path.stem, queries, origin=f"import {path.name}")


def _query(row: Mapping[str, Any], judgments: list[Judgment], library: Library) -> ExamQuery:
    extra = {key: value for key, value in row.items() if key not in _FIELDS and value not in (None, "")}
    metadata = {**extra.pop("metadata", {}), **extra} if isinstance(extra.get("metadata", {}), dict) else extra
    return library.query(row["id"], row["query"], judgments, str(row.get("family") or "questions"), metadata)


def id_of(text: str) -> str:
    """Returns the id of a question that has none: a hash of its words."""
    return f"q-{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


def _judgment(gold: Mapping[str, Any], library: Library) -> Judgment:
    start, end, grade = (
        int(gold[key]) if gold.get(key) not in (None, "") else None for key in ("start", "end", "grade")
    )
    return library.judge(gold["document"], gold.get("text") or "", start, end, 1 if grade is None else grade)


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
    """Writes one row per judgment; reading the file back gives the same questions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "query", "family", "document", "start", "end", "grade"])
        for query in exam.queries:
            writer.writerows(
                [query.id, query.text, query.family, j.document, j.start, j.end, j.grade] for j in query.judgments
            )


def write_jsonl(exam: Exam, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(json.dumps(query_to_json(query), ensure_ascii=False) + "\n" for query in exam.queries), encoding="utf-8"
    )
