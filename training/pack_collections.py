"""Packs collections with real questions for comparing encoders on a machine without surefind, as token ids.

    PYTHONPATH=benchmarks python training/pack_collections.py DATA WORK [NAME …]

A collection is cut by the default layout; a document's rank is that of its best passage, as in the engine. For every
question there are BM25's first `DEPTH` passages with their scores, by the engine's own BM25, so that a hybrid can be
computed with any encoder. WORK/collections/NAME.npz has the arrays that `collection.py` reads.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from surefind_models import path

from _collecting import fewer, questions_of
from ids import flat_ids
from surefind.base.types import Query
from surefind.engine.search.pipeline import Pipeline
from surefind.kb import KnowledgeBase
from surefind.lab.bench.engine import OWNER
from surefind.lab.exam.model import relocate

NAMES = (
    *("sample", "scifact", "cranfield", "chunking-eval", "anthropic-codebase", "zoomcamp-faq"),
    *("covidqa-partial", "hotpotqa-sub", "squad2-dev-half", "policyqa", "boolq"),
)
TEXT_TOKENS = 254
"""Tokens of a text without [CLS] and [SEP]; the engine reads 256."""
DEPTH = 1000
MOST = 500
"""Questions per collection; from more, this many are drawn, the same each time."""
SETTINGS = '[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n'
"""Nothing is embedded here: the encoders do that on the other machine."""


def pack(name: str, data: Path, work: Path, target: Path) -> None:
    folder = work / "bases" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "surefind.toml").write_text(SETTINGS, encoding="utf-8")
    with KnowledgeBase.open(folder) as kb:
        exam = fewer(questions_of(kb, name, data, work / "bases"), MOST)
        exam, _ = relocate(exam, {document.id: document.text for document in kb.documents(OWNER)})
        view = kb.reader().view
        spans = view.spans()
        texts = [chunk.searchable for chunk in view.chunks(spans.ids.tolist(), OWNER)]
        queries = [Query(query.text, query.id) for query in exam.queries]
        ranked = view.search(Pipeline.parse("bm25").retrieve[0], queries, DEPTH, OWNER)
        places = np.where(ranked.ids >= 0, spans.at(ranked.ids), -1)
    numbers = {document: number for number, document in enumerate(spans.names)}
    gold = {
        (q, numbers[j.document]): j.grade
        for q, query in enumerate(exam.queries)
        for j in sorted(query.judgments, key=lambda j: j.grade)
        if j.document in numbers
    }
    highest = np.maximum(ranked.scores.max(1, initial=0, where=places >= 0), 1e-9)
    scaled = np.where(places >= 0, ranked.scores / highest[:, None], 0)
    tokenizer = path("minilm") / "tokenizer.json"
    np.savez_compressed(
        target,
        **_named("passage", flat_ids(texts, tokenizer, TEXT_TOKENS)),
        **_named("query", flat_ids([query.text for query in queries], tokenizer, TEXT_TOKENS)),
        document=spans.documents.astype(np.int32),
        gold=np.array([[q, d, grade] for (q, d), grade in gold.items()], np.int32),
        bm25_ids=np.where(places >= 0, places, 65535).astype(np.uint16),
        bm25_scores=(scaled * 65535).round().astype(np.uint16),
        bm25_highest=highest.astype(np.float32),
    )
    print(f"{name}: {len(texts):,} passages, {len(queries)} questions, {target.stat().st_size:,} bytes", flush=True)


def _named(kind: str, found: tuple[np.ndarray, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{kind}_ids": found[0].astype(np.uint16), f"{kind}_lengths": found[1].astype(np.uint16)}


def main(data: Path, work: Path, names: list[str]) -> None:
    (work / "collections").mkdir(parents=True, exist_ok=True)
    for name in names or NAMES:
        pack(name, data, work, work / "collections" / f"{name}.npz")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
