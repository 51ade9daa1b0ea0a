"""Compares our rank measures with two other implementations, query by query, on a BM25 run over SciFact.

    python benchmarks/measures.py data/scifact

One implementation is written out below in plain Python; the other is pytrec_eval, if it is installed.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

from _shared import beir, machine
from surefind import Chunk, Query
from surefind.exam.model import ExamQuery, Judgment
from surefind.measure.gains import ChunkSpans, Judge
from surefind.measure.ranks import MEASURES
from surefind.retrieve.bm25 import BM25
from surefind.services import LocalServices
from surefind.types import EVERY

K = 10
TREC = {"nDCG": "ndcg_cut_10", "AP": "map_cut_10", "R": "recall_10", "P": "P_10", "Success": "success_10"}


def written_out(ranked: list[str], judged: dict[str, int]) -> dict[str, float]:
    gains = [judged.get(document_id, 0) for document_id in ranked[:K]]
    ideal = sorted(judged.values(), reverse=True)[:K]
    relevant = sum(grade > 0 for grade in judged.values())
    hits = [gain > 0 for gain in gains]
    dcg, best = (sum(g / math.log2(r + 2) for r, g in enumerate(row)) for row in (gains, ideal))
    precisions = [sum(hits[: r + 1]) / (r + 1) for r, hit in enumerate(hits) if hit]
    return {
        "nDCG": dcg / best,
        "RR": next((1 / (r + 1) for r, hit in enumerate(hits) if hit), 0.0),
        "AP": sum(precisions) / relevant,
        "R": sum(hits) / relevant,
        "P": sum(hits) / K,
        "Success": float(any(hits)),
        "All": float(sum(hits) == relevant),
    }


def main(data: Path) -> None:
    print(machine("surefind", "numpy"))
    corpus, queries, judged = beir(data)
    ids = [row["_id"] for row in corpus]
    chunks = [Chunk(row["_id"], 0, len(row["text"]), row["text"], context=row["title"]) for row in corpus]
    retriever = BM25()
    asked = [Query(text, document_id) for document_id, text in queries.items()]
    found = retriever.build(chunks, LocalServices()).search(retriever, asked, 100, EVERY)
    numbers = {document_id: i for i, document_id in enumerate(ids)}
    ends = np.array([chunk.end for chunk in chunks], dtype=np.int64)
    places = ChunkSpans(np.arange(len(ids)), np.zeros_like(ends), ends, numbers)
    exam = [
        ExamQuery(q, text, tuple(Judgment(document_id, grade=g) for document_id, g in judged[q].items()))
        for q, text in queries.items()
    ]
    gains = Judge(exam, places).gains(found, "document")
    ours = {name: measure(gains, K) for name, measure in MEASURES.items()}
    ranked = {q: [ids[i] for i in found.row(n)[0]] for n, q in enumerate(queries)}
    plain = [written_out(ranked[q], judged[q]) for q in queries]
    for name, scores in ours.items():
        greatest = max(abs(score - row[name]) for score, row in zip(scores, plain, strict=True))
        print(f"{name + '@10':<11} mean {scores.mean():.4f}   greatest difference from plain Python {greatest:.1e}")
    try:
        import pytrec_eval
    except ImportError:
        print("pytrec_eval is not installed, so it was not compared.")
        return
    run = {q: {document_id: float(-rank) for rank, document_id in enumerate(row)} for q, row in ranked.items()}
    theirs = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10", "map_cut.10", "recall.10", "P.10", "success.10"})
    scored = theirs.evaluate(run)
    for name, key in TREC.items():
        greatest = max(abs(score - scored[q][key]) for score, q in zip(ours[name], queries, strict=True))
        print(f"{name + '@10':<11} greatest difference from pytrec_eval {greatest:.1e}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
