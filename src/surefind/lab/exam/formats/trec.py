"""Reads and writes TREC topics (`<num>`/`<title>`, XML, or `id TAB text` lines) and qrels (`qid 0 document grade`)."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from surefind.base.errors import ExamError
from surefind.lab.exam.formats.files import read_text
from surefind.lab.exam.library import Complaints, Library
from surefind.lab.exam.model import Exam, Judgment

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
        topics = {_found(_NUMBER, top + body): " ".join(_title(body).split()) for top, body in _TOPIC.findall(text)}
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


def _found(pattern: re.Pattern[str], text: str) -> str:
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
