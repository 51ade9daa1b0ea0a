"""Packs exams for a machine without surefind: passages, questions, relevance grades, and the fused candidates.

    python training/pack_exams.py work/exams.jsonl.xz NAME=FOLDER[:EXAM] …

FOLDER is a knowledge base (with its newest EXAM, or known-item questions), cut by `LAYOUT` whatever its settings are,
or a BEIR folder, whose documents stay whole. The file has one line per set. Grades are per passage: a passage gets the
grade of a gold span if they overlap by at least half of the shorter one, and the grade of a relevant document if it
belongs to that document.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from surefind.base.types import Query
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.store.backend import Spans, View
from surefind.engine.write.layout import Layout
from surefind.kb import KnowledgeBase
from surefind.lab.bench.engine import OWNER
from surefind.lab.bench.run import beir_base, known_item_exam
from surefind.lab.exam.model import Exam, ExamQuery
from surefind.lab.exam.store import ExamStore

LAYOUT = Layout.read("markdown(tokens=250, min_tokens=50) + headings")
PIPELINE = Pipeline.parse("bm25 + dense >> convex(alpha=0.5, missing=score)")
DEPTH = 50
MOST = 800
"""The most questions per set; from larger sets, this many are taken at even intervals."""


def opened(folder: Path, exam: str) -> tuple[KnowledgeBase, Exam, View]:
    layout = None
    if (folder / "corpus.jsonl").exists():
        kb, judged = beir_base(Path.cwd(), folder, "test")
    else:
        kb, layout = KnowledgeBase.open(folder), LAYOUT
        judged = ExamStore(kb.data / "exams").load(exam) if exam else known_item_exam(kb)
    kb.build(PIPELINE, layout=layout)
    return kb, judged, kb.reader(layout).view


def gold_of(query: ExamQuery, spans: Spans, of_document: dict[str, list[int]]) -> dict[int, int]:
    """Maps the place of each relevant passage to its grade."""
    found: dict[int, int] = {}
    for j in query.judgments:
        for place in of_document.get(j.document, []):
            start, end = int(spans.own_starts[place]), int(spans.own_ends[place])
            if j.start is not None and j.end is not None:
                shared = min(end, j.end) - max(start, j.start)
                if shared * 2 < min(j.end - j.start, end - start):
                    continue
            if j.grade > 0:
                found[place] = max(found.get(place, 0), j.grade)
    return found


def pack(name: str, folder: Path, exam_name: str) -> dict[str, object]:
    kb, exam, view = opened(folder, exam_name)
    spans = view.spans()
    of_document: dict[str, list[int]] = defaultdict(list)
    for place, document in enumerate(spans.documents.tolist()):
        of_document[spans.names[document]].append(place)
    chosen = [exam.queries[i] for i in np.unique(np.linspace(0, len(exam.queries) - 1, MOST).astype(int))]
    gold = [gold_of(query, spans, of_document) for query in chosen]
    kept = [(query, grades) for query, grades in zip(chosen, gold, strict=True) if grades]
    queries = [Query(query.text, query.id) for query, _ in kept]
    ranked = PIPELINE.run(queries, DEPTH, view, kb.services, OWNER).rankings
    candidates, scores = spans.at(ranked.ids[:, :DEPTH]), ranked.scores[:, :DEPTH]
    print(f"{name}: {len(view):,} passages, {len(kept)} of {len(exam.queries)} questions", flush=True)
    return {
        "name": name,
        "passages": [chunk.searchable for chunk in view.chunks(spans.ids.tolist(), OWNER)],
        "queries": [query.text for query, _ in kept],
        "gold": [[[place, grade] for place, grade in grades.items()] for _, grades in kept],
        "candidates": candidates.tolist(),
        "scores": np.where(candidates < 0, 0, scores).round(6).tolist(),
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
