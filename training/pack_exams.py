"""Exams packed for a machine without surefind: passages, questions, what is relevant, and the fused candidates.

    python training/pack_exams.py work/exams.jsonl.xz NAME=FOLDER[:EXAM] …

FOLDER is a knowledge base (its newest EXAM, or known-item questions), cut as `LAYOUT` says whatever its settings are,
or a BEIR folder, whose documents stay whole. One line a set. Gains are per passage: a passage that shares half of a
gold span, or belongs to a relevant document, has its grade.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from surefind.snapshot import Snapshot

from surefind.bench.run import beir_base, known_item_exam
from surefind.exam.model import Exam, ExamQuery
from surefind.exam.store import ExamStore
from surefind.kb import KnowledgeBase
from surefind.search.pipeline import Pipeline
from surefind.types import Query
from surefind.write.layout import Layout

LAYOUT = Layout.read("markdown(tokens=250, min_tokens=50) + headings")
PIPELINE = "bm25 + dense >> convex(alpha=0.5, missing=score)"
DEPTH = 50
MOST = 800
"""Questions per set; more are sampled evenly."""


def opened(folder: Path, exam: str) -> tuple[KnowledgeBase, Exam, Snapshot]:
    if (folder / "corpus.jsonl").exists():
        kb, judged = beir_base(Path.cwd(), folder, "test")
        return kb, judged, kb.snapshot()
    kb = KnowledgeBase.open(folder)
    judged = ExamStore(kb.data / "exams").load(exam) if exam else known_item_exam(kb)
    return kb, judged, kb.snapshot(LAYOUT)


def gold_of(query: ExamQuery, snapshot: Snapshot, of_document: dict[str, list[int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for j in query.judgments:
        for ordinal in of_document.get(j.document, []):
            start, end = snapshot.rows[ordinal, 2:4].tolist()
            if j.start is not None and j.end is not None:
                shared = min(end, j.end) - max(start, j.start)
                if shared * 2 < min(j.end - j.start, end - start):
                    continue
            if j.grade > 0:
                found[ordinal] = max(found.get(ordinal, 0), j.grade)
    return found


def pack(name: str, folder: Path, exam_name: str) -> dict[str, object]:
    kb, exam, snapshot = opened(folder, exam_name)
    of_document: dict[str, list[int]] = defaultdict(list)
    for ordinal, document in enumerate(snapshot.document_ids):
        of_document[document].append(ordinal)
    chosen = [exam.queries[i] for i in np.unique(np.linspace(0, len(exam.queries) - 1, MOST).astype(int))]
    gold = [gold_of(query, snapshot, of_document) for query in chosen]
    kept = [(query, grades) for query, grades in zip(chosen, gold, strict=True) if grades]
    queries = [Query(query.text, query.id) for query, _ in kept]
    pipeline = Pipeline.parse(PIPELINE)
    run = pipeline.run(queries, DEPTH, lambda r: kb.index(r, snapshot), snapshot, kb.services)
    print(f"{name}: {len(snapshot):,} passages, {len(kept)} of {len(exam.queries)} questions", flush=True)
    return {
        "name": name,
        "passages": [chunk.searchable for chunk in snapshot.chunks()],
        "queries": [query.text for query, _ in kept],
        "gold": [[[int(o), g] for o, g in grades.items()] for _, grades in kept],
        "candidates": run.rankings.ids.tolist(),
        "scores": np.where(run.rankings.ids < 0, 0, run.rankings.scores).round(6).tolist(),
    }


def main(target: Path, arguments: list[str]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(target, "wt", encoding="utf-8") as out:
        for argument in arguments:
            name, _, place = argument.partition("=")
            folder, _, exam = place.partition(":")
            out.write(json.dumps(pack(name, Path(folder), exam), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
