"""Writes sources of the training pairs as BEIR collections, to judge encoders on more kinds of questions.

    python training/pairs_as_collections.py train-pairs.jsonl.xz DATA medquad tatqa …

A model that learned from the pairs of a source cannot be judged on it: leave the source out of training.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pairs import Pairs, read_pairs


def write(pairs: Pairs, source: str, target: Path) -> None:
    """One document for each passage; a question with several positives has as many relevant documents."""
    number = pairs.sources.index(source)
    first, end = pairs.first[number], pairs.first[number + 1]
    asked = [q for q, own in enumerate(pairs.query_source) if own == number and pairs.positives[q]]
    (target / "qrels").mkdir(parents=True, exist_ok=True)
    documents = ({"_id": f"d{p}", "title": "", "text": pairs.passages[p]} for p in range(first, end))
    _write(target / "corpus.jsonl", [json.dumps(row, ensure_ascii=False) for row in documents])
    questions = ({"_id": f"q{q}", "text": pairs.queries[q]} for q in asked)
    _write(target / "queries.jsonl", [json.dumps(row, ensure_ascii=False) for row in questions])
    rows = [f"q{q}\td{p}\t1" for q in asked for p in pairs.positives[q]]
    _write(target / "qrels" / "test.tsv", ["query-id\tcorpus-id\tscore", *rows])
    print(f"{source}: {end - first:,} documents, {len(asked):,} questions", flush=True)


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    read = read_pairs(Path(sys.argv[1]))
    for name in sys.argv[3:]:
        write(read, name, Path(sys.argv[2]) / name)
