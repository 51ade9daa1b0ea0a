"""Compares milvus-lite with the local indexes on SciFact, from nothing and after an update, and times both.

    python benchmarks/milvus_parity.py data/scifact WORK_FOLDER [DOCUMENTS] [QUESTIONS]

The first sync takes four fifths of the documents, the second one all of them. So the second generation is in the
collection of the first, with the average length of the first in its weights. The last lines bound what the average
does: the same rankings with weights that are off by 2% and by 10%.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from _shared import beir, machine
from surefind.access import Access
from surefind.bench.parity import measure_parity
from surefind.exam.model import Exam, ExamQuery, Judgment
from surefind.kb import KnowledgeBase
from surefind.store.backends.milvus.indexes import RemoteWords
from surefind.store.backends.milvus.words import SetStatistics
from surefind.types import Query

OWNER = Access.owner()
SETTINGS = """
[index]
chunk = "whole"
enrich = ["headings"]
[search]
pipeline = "both"
[pipelines.both]
retrieve = ["bm25", "dense"]
fuse = "convex(alpha=0.5)"
"""
MILVUS = '[store]\nbackend = "milvus"\nuri = "kb.db"\n'


def main(data: Path, work: Path, documents: int = 5183, questions: int = 100) -> None:
    print(machine("surefind", "pymilvus", "milvus-lite", "numpy"))
    corpus, texts, judged = beir(data)
    asked = list(texts)[:questions]
    gold = {document_id for query in asked for document_id in judged[query]}
    rows = sorted(corpus, key=lambda row: row["_id"] not in gold)[:documents]
    exam = Exam("scifact", tuple(ExamQuery(q, texts[q], _judgments(judged[q])) for q in asked))
    work.mkdir(parents=True, exist_ok=True)
    (work / "surefind.toml").write_text(MILVUS + SETTINGS, encoding="utf-8")
    for part in (rows[: documents * 4 // 5], rows):
        _write(work / "docs" / "corpus.jsonl", part)
        with KnowledgeBase.open(work) as kb:
            started = time.perf_counter()
            made = kb.sync(work / "docs")
            print(f"generation {made.generation}: {made.chunks} chunks, {time.perf_counter() - started:.1f} s")
            for parity in measure_parity(kb, exam):
                print(f"  {parity}")
            index: Any = kb.reader().view.index(kb.pipeline().retrieve[0])  # type: ignore[attr-defined]
            print(f"  no score of bm25 can be off by more than {index._words.drift:.4%}")
    with KnowledgeBase.open(work) as kb:
        _timed(kb, exam)
        _off(kb, exam)


def _judgments(grades: dict[str, int]) -> tuple[Judgment, ...]:
    return tuple(Judgment(document_id, grade=grade) for document_id, grade in grades.items())


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def _timed(kb: KnowledgeBase, exam: Exam) -> None:
    view = kb.reader().view
    for retriever in kb.pipeline().retrieve:
        view.search(retriever, [Query("warm up")], 100, OWNER)
        taken = []
        for query in exam.queries:
            started = time.perf_counter()
            view.search(retriever, [Query(query.text)], 100, OWNER)
            taken.append(1000 * (time.perf_counter() - started))
        print(f"{retriever.name}: {statistics.median(taken):.1f} ms a query (median, 100 candidates)")


def _off(kb: KnowledgeBase, exam: Exam) -> None:
    """Rewrites the weights with a wrong average, in new collections."""
    real = SetStatistics.of
    for share in (0.02, 0.10):

        def wrong(*given: Any, share: float = share) -> SetStatistics:
            made = real(*given)
            return replace(made, average=made.average * (1 + share))

        SetStatistics.of = wrong  # type: ignore[method-assign, assignment]
        kb.use(replace(kb.settings, pipelines={"both": kb.settings.find(f"bm25(k1={1.5 + share / 1e6})")}))
        kb.build("both")
        index: Any = kb.reader().view.index(kb.pipeline().retrieve[0])  # type: ignore[attr-defined]
        assert isinstance(index, RemoteWords)
        print(f"weights off by {index._words.drift:.2%}: {measure_parity(kb, exam)[0]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
