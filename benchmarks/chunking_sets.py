"""Writes parts of the gold-span collections as BEIR folders, small enough to embed in many layouts on two cores.

    python benchmarks/chunking_sets.py data sets/

- chunking-eval-third: the first third of each of the five texts, and the questions whose gold spans all lie there;
- covidqa-third: every third article;
- chunking-eval-ninth, covidqa-tenth, squad2-quarter: smaller parts, for the grid of `--preset chunking`;
- chunking-eval-3, covidqa-10, squad2-5: the three shortest texts, and the first articles, for `study agentic-kb`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(path: Path, content: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content), encoding="utf-8")


def part(source: Path, target: Path, choose: Callable[[list[Row]], list[Row]]) -> None:
    """Writes the chosen documents, whole or shortened at the end, and the questions whose gold they still contain."""
    corpus = choose(rows(source / "corpus.jsonl"))
    length = {row["_id"]: len(row["text"]) for row in corpus}
    spans = rows(source / "spans.jsonl")
    lost = {span["query-id"] for span in spans if span["end"] > length.get(span["corpus-id"], 0)}
    kept = [span for span in spans if span["query-id"] not in lost]
    asked = {span["query-id"] for span in kept}
    write(target / "corpus.jsonl", corpus)
    write(target / "spans.jsonl", kept)
    write(target / "queries.jsonl", [row for row in rows(source / "queries.jsonl") if row["_id"] in asked])
    judged = {(span["query-id"], span["corpus-id"]) for span in kept}
    qrels = ["query-id\tcorpus-id\tscore", *(f"{query}\t{document}\t1" for query, document in sorted(judged))]
    (target / "qrels").mkdir(exist_ok=True)
    (target / "qrels" / "test.tsv").write_text("\n".join(qrels) + "\n", encoding="utf-8")
    print(f"{target.name}: {len(corpus)} documents, {sum(length.values())} characters, {len(asked)} questions")


def beginnings(share: int) -> Callable[[list[Row]], list[Row]]:
    return lambda found: [{**row, "text": row["text"][: len(row["text"]) // share]} for row in _by_id(found)]


def every(step: int, first: int = 0) -> Callable[[list[Row]], list[Row]]:
    return lambda found: _by_id(found)[first::step]


def first(number: int) -> Callable[[list[Row]], list[Row]]:
    return lambda found: found[:number]


def shortest(number: int) -> Callable[[list[Row]], list[Row]]:
    return lambda found: _by_id(sorted(found, key=lambda row: len(row["text"]))[:number])


def _by_id(found: list[Row]) -> list[Row]:
    return sorted(found, key=lambda row: str(row["_id"]))


def main(data: Path, out: Path) -> None:
    part(data / "chunking-eval", out / "chunking-eval-third", beginnings(3))
    part(data / "chunking-eval", out / "chunking-eval-ninth", beginnings(9))
    part(data / "covidqa-partial", out / "covidqa-third", every(3))
    part(data / "covidqa-partial", out / "covidqa-tenth", every(10, 1))
    part(data / "squad2-dev-half", out / "squad2-quarter", every(4))
    part(data / "chunking-eval", out / "chunking-eval-3", shortest(3))
    part(data / "covidqa-partial", out / "covidqa-10", first(10))
    part(data / "squad2-dev-half", out / "squad2-5", first(5))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
