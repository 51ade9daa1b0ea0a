"""Importers of exams: tables, BEIR, TREC, logs and chat exports, answers, candidates, reports, trained prompts."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

from _target import Target, ensure, mutated_bytes, texts

from surefind.base.types import Document
from surefind.lab.bench.saved import read_report
from surefind.lab.exam.formats.collections import read_beir, read_trec
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.questions import read_questions
from surefind.lab.exam.formats.table import read_table
from surefind.lab.exam.model import Exam
from surefind.lab.exam.questions import Candidates, Questions

TEXT = (
    "# Wires\n\nA wire costs 25 dollars. The limit is 10,000 dollars a day.\n\n## Recall\n\nRecall a wire "
    "within a day.\n"
)
DOCUMENTS = [
    Document("fees/wire.md", TEXT, "Wires"),
    Document("a.md", "Text of a.", "A"),
    Document("b/a.md", "Text b.", "A"),
]
CSV = [
    (
        "id,query,document,text,grade\nq1,What does a wire cost?,wire.md,A wire costs 25 dollars.,1\nq2,limit?,"
        "fees/wire.md,,2\n"
    ),
    "query;document\nrecall a wire;wire.md\n",
    'question,document,start,end\n"a, ""b""",a.md,0,4\n',
]
JSONL = [
    '{"id": "q1", "query": "cost of a wire", "gold": [{"document": "wire.md", "text": "A wire costs 25 dollars."}]}\n'
    '{"query": "limit", "document": "fees/wire.md", "start": 9, "end": 20, "grade": 2, "metadata": {"a": 1}}\n',
    '{"question": "recall", "document": "a.md", "family": "x"}\n',
]
QUERIES = ['{"_id": "q1", "text": "cost of a wire", "metadata": {"family": "x"}}\n{"_id": "q2", "text": "limit"}\n']
QRELS = ["query-id\tcorpus-id\tscore\nq1\tfees/wire.md\t1\nq2\ta.md\t0\n"]
SPANS = ['{"query-id": "q1", "corpus-id": "fees/wire.md", "start": 9, "end": 33, "score": 1}\n']
TOPICS = [
    "<top>\n<num> Number: 1\n<title> cost of a wire\n<desc> none\n</top>\n<top><num>2<title>limit<desc></top>\n",
    "1\tcost\n2\tlimit\n",
    '<topics><topic number="1"><query>cost</query></topic><topic number="2"><query>limit</query></topic></topics>',
]
TREC_QRELS = ["1 0 fees/wire.md 1\n2 0 a.md 0\n", "1 Q0 fees/wire.md 2\n"]
LOGS = [
    "time,query,user\n1,how do I recall a wire,7\n2,wire fee abroad,8\n",
    "sep=;\nquestion;count\nwhat is the daily limit;3\n",
    "how do I recall a wire transfer\nthanks!\nwhat is the limit for cash withdrawals\n",
]
CHATS = [
    '[{"role": "user", "content": "how do I recall a wire?"}, {"role": "assistant", "content": "Call us."}]',
    '{"messages": [{"role": "user", "text": "what is the daily cash limit"}], "id": 1}',
    '"one question"\n{"query": "two words here"}\n',
]
REPORT = json.dumps(
    {
        "rows": [{"name": "bm25", "aliases": ["b"], "pipeline": "bm25", "spec": "bm25", "layout": "whole"}],
        "recommended": "bm25",
        "compares_layouts": False,
    }
)
TABLE_TOKENS = [
    ",",
    ";",
    "\t",
    "|",
    '"',
    '""',
    "\n",
    "\r\n",
    "query",
    "document",
    "id",
    "start",
    "end",
    "wire.md",
    "sep=;\n",
    "1",
    "-1",
]
JSON_TOKENS = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "null",
    "\n",
    '"gold"',
    '"document":',
    '"query":',
    "1",
    "-1",
    "1.5",
    "\\ud800",
    "\\u0000",
]
TREC_TOKENS = ["<top>", "</top>", "<num>", "<title>", "<topic", "number=", "\t", " 0 ", "\n", "1", "a.md", "<"]


def targets(folder: Path) -> list[Target]:
    library = Library(DOCUMENTS)
    beir, topics = folder / "beir", folder / "topics"
    (beir / "qrels").mkdir(parents=True)
    parts = {
        "queries.jsonl": texts(QUERIES, JSON_TOKENS),
        "qrels/test.tsv": texts(QRELS, TABLE_TOKENS),
        "spans.jsonl": texts(SPANS, JSON_TOKENS),
    }
    seeds = {"queries.jsonl": QUERIES[0], "qrels/test.tsv": QRELS[0], "spans.jsonl": SPANS[0]}

    def beir_case(chance: random.Random) -> dict[str, bytes]:
        changed = chance.choice(list(parts))
        return {
            **{name: text.encode() for name, text in seeds.items()},
            changed: _encoded(parts[changed](chance), chance),
        }

    def run_beir(case: dict[str, bytes]) -> None:
        for name, data in case.items():
            (beir / name).write_bytes(data)
        _check(read_beir(beir, library))

    topic, qrel = texts(TOPICS, TREC_TOKENS), texts(TREC_QRELS, TREC_TOKENS)

    def trec_case(chance: random.Random) -> tuple[bytes, bytes]:
        if chance.random() < 0.5:
            return _encoded(topic(chance), chance), chance.choice(TREC_QRELS).encode()
        return chance.choice(TOPICS).encode(), _encoded(qrel(chance), chance)

    def run_trec(case: tuple[bytes, bytes]) -> None:
        topics.write_bytes(case[0])
        (folder / "qrels.txt").write_bytes(case[1])
        _check(read_trec(topics, folder / "qrels.txt", library))

    def read(name: str, work: Callable[[Path], object]) -> Callable[[bytes], None]:
        def run(data: bytes) -> None:
            (folder / name).write_bytes(data)
            work(folder / name)

        return run

    def collect(path: Path) -> None:
        for column in ("", "2"):
            if not (column and path.suffix == ".log"):
                Candidates(Questions(folder / "none"), "asked").merged(read_questions(path, column), path.name)

    return [
        Target(
            "questions.csv", 5, _bytes(CSV, TABLE_TOKENS), read("q.csv", lambda path: _check(read_table(path, library)))
        ),
        Target(
            "questions.jsonl",
            6,
            _bytes(JSONL, JSON_TOKENS),
            read("q.jsonl", lambda path: _check(read_table(path, library))),
        ),
        Target("beir", 3, beir_case, run_beir),
        Target("trec", 4, trec_case, run_trec),
        Target("log.csv", 1.5, _bytes(LOGS, TABLE_TOKENS), read("l.csv", collect)),
        Target("log.txt", 1, _bytes(LOGS, TABLE_TOKENS), read("l.log", collect)),
        Target("chat.json", 4, _bytes(CHATS, JSON_TOKENS), read("c.json", collect)),
        Target("chat.jsonl", 4, _bytes(CHATS, JSON_TOKENS), read("c.jsonl", collect)),
        Target("report", 5, _bytes([REPORT], JSON_TOKENS), read("report.json", read_report)),
    ]


def _bytes(seeds: list[str], tokens: list[str]) -> Callable[[random.Random], bytes]:
    make = texts(seeds, tokens)
    return lambda chance: _encoded(make(chance), chance)


def _encoded(text: str, chance: random.Random) -> bytes:
    """The text in UTF-8, with bytes changed in one of five."""
    data = text.encode("utf-8", "surrogatepass" if chance.random() < 0.2 else "replace")
    return mutated_bytes(data, chance) if chance.random() < 0.2 else data


def _check(exam: Exam) -> None:
    _ = exam.fingerprint, exam.families()
    known = {document.id: document for document in DOCUMENTS}
    for query in exam.queries:
        for one in query.judgments:
            ensure(one.document in known, "a judgment points at no document")
            ensure(one.end is None or one.end <= len(known[one.document].text), "a span ends outside its document")
