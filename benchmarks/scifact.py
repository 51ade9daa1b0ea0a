"""Measures nDCG@10 on SciFact: our BM25 against bm25s on the same text, our MiniLM against its fp32 original.

    python benchmarks/scifact.py data/scifact [CACHE_FOLDER]
    python benchmarks/scifact.py data/scifact WORK 'bm25 + dense >> convex(alpha=0.5, missing=score)' 'PIPELINE' …

SciFact has 300 test queries and 5,183 abstracts; title and text are used. bm25s runs with method lucene, k1=1.5,
b=0.75, its English stop words and the Snowball stemmer. Vectors are cached in CACHE_FOLDER if it is given; the first
run takes minutes. With pipelines, a knowledge base in WORK runs them, each compared with the first; a reranker of
twelve layers that reads 50 passages takes four minutes on 16 cores.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from _collecting import questions_of, scores_of
from _shared import beir, machine, ndcg
from surefind import Chunk, Query
from surefind.base.types import EVERY
from surefind.engine.retrieve.bm25 import BM25
from surefind.engine.retrieve.dense import Dense
from surefind.engine.services import LocalServices
from surefind.kb import KnowledgeBase
from surefind.lab.measure.statistics import bootstrap

FP32 = 0.645
"""nDCG@10 of the fp32 model on the same data, from models/src/surefind_models/minilm/MODEL_CARD.md."""


def main(data: Path, cache: Path | None) -> None:
    import bm25s
    import Stemmer

    print(machine("surefind", "bm25s", "PyStemmer", "onnxruntime"))
    corpus, queries, judged = beir(data)
    ids = [row["_id"] for row in corpus]

    def score(name: str, ordinals: list[list[int]]) -> float:
        ranked = ([ids[i] for i in row if i >= 0] for row in ordinals)
        mean = statistics.fmean(ndcg(row, judged[q]) for q, row in zip(queries, ranked, strict=True))
        print(f"{name:8} nDCG@10 {mean:.4f}", flush=True)
        return mean

    chunks = [Chunk(row["_id"], 0, len(row["text"]), row["text"], context=row["title"]) for row in corpus]
    batch = [Query(text, query_id) for query_id, text in queries.items()]
    services = LocalServices(cache)
    ours = {}
    for retriever in (BM25(), Dense()):
        index = retriever.build(chunks, services)
        ours[retriever.name] = score(retriever.name, index.search(retriever, batch, 10, EVERY).ids.tolist())

    stemmer = Stemmer.Stemmer("english")
    peer = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    texts = [chunk.searchable for chunk in chunks]
    peer.index(bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)
    tokens = bm25s.tokenize(list(queries.values()), stopwords="en", stemmer=stemmer, show_progress=False)
    theirs = score("bm25s", peer.retrieve(tokens, k=10, show_progress=False)[0].tolist())
    print(f"bm25 - bm25s {ours['bm25'] - theirs:+.4f}; dense - fp32 {ours['dense'] - FP32:+.4f} (fp32 {FP32})")


def compare(data: Path, work: Path, pipelines: list[str]) -> None:
    folder = work / data.name
    folder.mkdir(parents=True, exist_ok=True)
    with KnowledgeBase.open(folder) as kb:
        scores = scores_of(kb, questions_of(kb, data.name, data.parent, work), {text: text for text in pipelines})
    for text, column in zip(pipelines, scores.T, strict=True):
        (gain,) = bootstrap((column - scores[:, 0])[:, None])
        interval = f"{100 * gain.mean:+.1f} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"
        print(f"nDCG@10 {100 * column.mean():.1f}  {interval}  {text}")


if __name__ == "__main__":
    if len(sys.argv) > 3:
        compare(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
