"""Prints generated questions in random order, without their families, for a person to judge; then counts the verdicts.

    python benchmarks/exam_reading.py FOLDER... > sheet.txt
    python benchmarks/exam_reading.py FOLDER... --verdicts verdicts.txt

The folders hold Markdown or HTML. The sheet has up to --count questions of --family (by default the one that may choose
a configuration), each with its gold. A line of the verdicts is `NUMBER natural gold`, for example `7 yes no`: whether
the question is natural and can be answered, and whether its gold is right and the only one.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from pathlib import Path

from surefind.exam.known_item import generate
from surefind.exam.model import ExamQuery
from surefind.ingest.html import Html
from surefind.ingest.markdown import Markdown
from surefind.types import Document

FAMILIES = ["heading_paraphrase"]
READERS = {".md": Markdown(), ".html": Html()}
SHOWN = 400
"""Characters of a gold passage on the sheet."""


def read(folders: list[Path]) -> list[Document]:
    files = [(path, path.relative_to(folder.parent)) for folder in folders for path in sorted(folder.rglob("*.*"))]
    known = [(READERS[path.suffix], path, document_id) for path, document_id in files if path.suffix in READERS]
    return [document for reader, path, document_id in known for document in reader.read(path, document_id.as_posix())]


def drawn(documents: list[Document], families: list[str], count: int, seed: int) -> list[ExamQuery]:
    queries = list(generate(documents, families=families).queries)
    random.Random(seed).shuffle(queries)
    return queries[:count]


def print_sheet(queries: list[ExamQuery], documents: list[Document]) -> None:
    texts = {document.id: document.text for document in documents}
    for number, query in enumerate(queries, 1):
        print(f"{number}. {query.text}")
        for gold in query.judgments:
            passage = " ".join(texts[gold.document][gold.start : gold.end].split())
            print(f"   {gold.document} ({len(passage)} characters): {passage[:SHOWN]}")
        print()


def print_counts(queries: list[ExamQuery], verdicts: Path) -> None:
    found: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for line in verdicts.read_text(encoding="utf-8").splitlines():
        number, natural, gold = line.split()[:3]
        found[queries[int(number) - 1].family].append((natural == "yes", gold == "yes"))
    print("| family | read | natural and answerable | gold right and the only one | both |\n|---|---|---|---|---|")
    everything = [row for rows in found.values() for row in rows]
    for family, rows in (*found.items(), ("all", everything)):
        natural, gold = (sum(row[i] for row in rows) for i in (0, 1))
        print(f"| `{family}` | {len(rows)} | {natural} | {gold} | {sum(all(row) for row in rows)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--family", action="append", help="may be repeated")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verdicts", type=Path)
    args = parser.parse_args()
    documents = read(args.folders)
    queries = drawn(documents, args.family or FAMILIES, args.count, args.seed)
    print_counts(queries, args.verdicts) if args.verdicts else print_sheet(queries, documents)


if __name__ == "__main__":
    main()
