"""Reads and writes BEIR folders: queries.jsonl, qrels/SPLIT.tsv and optionally spans.jsonl with gold passages.

Reads and writes TREC topics (`<num>`/`<title>`, XML, or `id TAB text` lines) and qrels (`qid 0 document grade`).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from surefind.base.errors import ExamError
from surefind.lab.exam.formats.library import Complaints, Library, read_row, read_text
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


_TOPIC = re.compile(r"<top(?:ic)?\b([^<>]*)>((?:[^<]|<(?!/?top))*+)</top(?:ic)?>", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"<num>\s*(?:Number:)?\s*([^\s<]+)|number=\"([^\"]+)\"", re.IGNORECASE)
_TITLE = re.compile(r"<(title|query)>\s*+(?:Topic:)?([^<]*)(?=<)", re.IGNORECASE)


def read_trec(topics: Path, qrels: Path, library: Library, name: str = "") -> Exam:
    texts = _topics(topics)
    judged: dict[str, list[Judgment]] = defaultdict(list)
    complaints = Complaints(qrels)
    for number, line in enumerate(read_text(qrels).splitlines(), 1):
        if not line.strip():
            continue
        try:
            query, _, rest = line.split(maxsplit=2)
            document, grade = rest.rsplit(maxsplit=1)  # an id may contain spaces, as file names do
            if query not in texts:
                raise ExamError(f"there is no topic {query!r} in {topics.name}")
            judged[query].append(library.judge(document, grade=max(0, int(grade))))
        except (ValueError, ExamError) as error:
            complaints.add(
                number, str(error) if isinstance(error, ExamError) else f"not 'query 0 document grade': {line!r}"
            )
    complaints.refuse()
    if not judged:
        raise ExamError(f"{qrels} contains no judgments.")
    queries = tuple(library.query(query_id, texts[query_id], judgments) for query_id, judgments in judged.items())
    return Exam(name or topics.stem, queries, origin=f"trec {topics.name} {qrels.name}")


def _topics(path: Path) -> dict[str, str]:
    text = read_text(path)
    if "<top" in text.lower():
        topics = {_match_in(_NUMBER, top + body): " ".join(_title(body).split()) for top, body in _TOPIC.findall(text)}
        empty = [query_id for query_id, title in topics.items() if not title]
        if empty:
            raise ExamError(f"{path} has topics without a title, so nothing was imported: {', '.join(empty[:10])}.")
        return topics
    complaints = Complaints(path)
    topics = {}
    for number, line in enumerate(text.splitlines(), 1):
        query_id, tab, query = line.partition("\t")
        if line.strip() and not (tab and query.strip()):
            complaints.add(number, "not 'id TAB text'")
        elif line.strip():
            topics[query_id.strip()] = query.strip()
    complaints.refuse()
    return topics


def _title(body: str) -> str:
    match = _TITLE.search(body)
    return match.group(2) if match else ""


def _match_in(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return next(group for group in match.groups() if group) if match else ""


def write_trec(exam: Exam, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{query.id}\t{' '.join(query.text.split())}\n" for query in exam.queries]
    (folder / "topics.tsv").write_text("".join(lines), encoding="utf-8")
    with (folder / "qrels.txt").open("w", encoding="utf-8") as file:
        for query in exam.queries:
            best: dict[str, int] = {}
            for j in query.judgments:
                best[j.document] = max(best.get(j.document, 0), j.grade)
            file.writelines(f"{query.id} 0 {document} {grade}\n" for document, grade in best.items())
