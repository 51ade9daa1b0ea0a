"""Measures what hidden text is worth as evidence: a sentence is removed from each document, then asked for.

    python benchmarks/hidden_text.py --data DATA --work WORK --only NAME [--only NAME …]

DATA and WORK are those of `exam_validity.py collect`, which writes the scores of real questions. Each document loses
one sentence of 8 to 30 words that is not its first; the documents are indexed again without it, and the sentence is the
question. Printed are Kendall's τ with the order of the configurations on real questions, and what the winner on hidden
sentences loses on real questions, in points of nDCG@10.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from pathlib import Path

import numpy as np

from _collecting import CONFIGURATIONS, SEED, fewer, questions_of, scores_of
from exam_validity import kendall, load
from surefind import Access
from surefind.exam.model import Exam, ExamQuery, Judgment
from surefind.kb import KnowledgeBase
from surefind.types import Document

MOST = 300
SENTENCE = re.compile(r"(?<=[.!?] )[A-Z][^.!?\n|]{30,300}[.!?](?=\s|$)")


def hidden(document: Document, lot: random.Random) -> tuple[str, str]:
    """The text without a sentence, and the sentence; "" if there is none to hide."""
    found = [match for match in SENTENCE.finditer(document.text) if 8 <= len(match[0].split()) <= 30]
    if not found:
        return document.text, ""
    chosen = lot.choice(found)
    return document.text[: chosen.start()] + document.text[chosen.end() :], chosen[0]


def prepared(data: Path, work: Path, name: str) -> tuple[Path, Exam]:
    """A folder with the documents of a collection, each without a sentence, and the sentences as questions."""
    with KnowledgeBase.open(work / name) as kb:
        questions_of(kb, name, data, work)
        documents = list(kb.documents(Access.owner()))
    folder, lot = work / "hidden" / name, random.Random(SEED)
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    rows, queries = [], []
    for document in documents:
        text, sentence = hidden(document, lot)
        rows.append({"_id": document.id, "title": document.title, "text": text})
        if sentence:
            queries.append(ExamQuery(document.id, sentence, (Judgment(document.id),), "hidden_sentence"))
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / "corpus" / "corpus.jsonl").write_text(text, encoding="utf-8")
    return folder, fewer(Exam("hidden", tuple(queries)), MOST)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", action="append", required=True)
    given = parser.parse_args()
    real = load(given.work)
    print("| collection | hidden sentences | τ | winner | loses |\n|---|---|---|---|---|")
    for name in given.only:
        folder, exam = prepared(given.data, given.work, name)
        with KnowledgeBase.open(folder) as kb:
            kb.sync(folder / "corpus")
            means = scores_of(kb, exam, CONFIGURATIONS).mean(axis=0)
        truth = real[name]["real"].mean(axis=0)
        best = int(np.argmax(means))
        lost = 100 * (truth.max() - truth[best])
        winner = list(CONFIGURATIONS)[best]
        print(f"| {name} | {len(exam.queries)} | {kendall(means, truth):.2f} | {winner} | {lost:.2f} |", flush=True)


if __name__ == "__main__":
    main()
