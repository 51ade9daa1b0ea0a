"""Reads and writes BEIR folders: queries.jsonl, qrels/SPLIT.tsv and optionally spans.jsonl with gold passages."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from surefind.base.errors import ExamError
from surefind.lab.exam.formats.files import read_row, read_text
from surefind.lab.exam.library import Complaints, Library
from surefind.lab.exam.model import Exam, Judgment


def read_beir(folder: Path, library: Library, split: str = "test", name: str = "") -> Exam:
    """Reads the queries of a split with their graded documents; a document with gold spans is judged by these spans."""
    qrels = folder / "qrels" / f"{split}.tsv"
    if not qrels.exists():
        splits = sorted(path.stem for path in (folder / "qrels").glob("*.tsv"))
        raise ExamError(f"{folder} has no split {split!r}. Splits: {', '.join(splits) or 'none'}.")
    texts = _queries(folder / "queries.jsonl")
    spans = _spans(folder / "spans.jsonl", library)
    judged: dict[str, list[Judgment]] = defaultdict(list)
    complaints = Complaints(qrels)
    for number, line in enumerate(read_text(qrels).splitlines(), 1):
        fields = line.split("\t")
        if not line.strip() or (number == 1 and not fields[-1].lstrip("-").isdigit()):
            continue
        try:
            query, document, grade = fields
            if query not in texts:
                raise ExamError(f"there is no query {query!r} in queries.jsonl")
            golds = spans.get((query, document)) if int(grade) > 0 else None
            judged[query] += golds or [library.judge(document, grade=max(0, int(grade)))]
        except (ValueError, ExamError) as error:
            complaints.add(number, str(error))
    complaints.refuse()
    if not judged:
        raise ExamError(f"The split {split!r} of {folder} contains no questions.")
    queries = tuple(
        library.query(query_id, *texts[query_id][:1], judgments, texts[query_id][1])
        for query_id, judgments in judged.items()
    )
    return Exam(name or f"{folder.name}-{split}", queries, origin=f"beir {folder.name} {split}")


def _queries(path: Path) -> dict[str, tuple[str, str]]:
    """Query id -> its text and family."""
    if not path.exists():
        raise ExamError(f"{path.parent} is not a BEIR folder: it has no queries.jsonl.")
    complaints = Complaints(path)
    queries: dict[str, tuple[str, str]] = {}
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = read_row(line)
            queries[str(row["_id"])] = str(row["text"]), str((row.get("metadata") or {}).get("family") or "questions")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            complaints.add(number, f"no _id and text ({error})")
    complaints.refuse()
    return queries


def _spans(path: Path, library: Library) -> dict[tuple[str, str], list[Judgment]]:
    spans: dict[tuple[str, str], list[Judgment]] = defaultdict(list)
    if not path.exists():
        return spans
    complaints = Complaints(path)
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row: dict[str, Any] = read_row(line)
            judgment = library.judge(
                row["corpus-id"], row.get("text", ""), row["start"], row["end"], int(row.get("score", 1)),
                row.get("role", "answer"),
            )  # fmt: skip
            spans[row["query-id"], row["corpus-id"]].append(judgment)
        except (ValueError, KeyError, TypeError, OverflowError, ExamError) as error:
            complaints.add(number, str(error))
    complaints.refuse()
    return spans


def write_beir(exam: Exam, folder: Path) -> None:
    """Writes queries.jsonl, qrels/test.tsv and spans.jsonl, but not the corpus."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    with (folder / "queries.jsonl").open("w", encoding="utf-8") as file:
        for query in exam.queries:
            file.write(
                json.dumps(
                    {"_id": query.id, "text": query.text, "metadata": {"family": query.family}}, ensure_ascii=False
                )
                + "\n"
            )
    with (folder / "qrels" / "test.tsv").open("w", encoding="utf-8") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        for query in exam.queries:
            grades: dict[str, int] = {}
            for j in query.judgments:
                grades[j.document] = max(grades.get(j.document, 0), j.grade)
            file.writelines(f"{query.id}\t{document}\t{grade}\n" for document, grade in grades.items())
    spans = [(query, j) for query in exam.queries for j in query.judgments if j.is_span]
    if spans:
        with (folder / "spans.jsonl").open("w", encoding="utf-8") as file:
            for query, j in spans:
                file.write(
                    json.dumps(
                        {
                            "query-id": query.id,
                            "corpus-id": j.document,
                            "start": j.start,
                            "end": j.end,
                            "score": j.grade,
                            "role": j.role,
                        }
                    )
                    + "\n"
                )
