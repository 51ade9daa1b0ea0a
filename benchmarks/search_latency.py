"""Times one hybrid query over 100,000 passages: `bm25 + dense >> convex(alpha=0.3)`, top 10, without the encoder.

    python benchmarks/search_latency.py data/train-pairs.jsonl.xz

Queries go through KnowledgeBase.search, one at a time, so the time includes reading the hits' text from the catalogue.
The passages and questions are real; the vectors are random unit vectors (the encoder is replaced before anything is
built, so the scan costs the same as always and the encoder almost nothing). The dense scores are checked against an
exact scan in float32.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from _shared import machine, passages_and_questions
from surefind import Access, KnowledgeBase
from surefind.embed.minilm import MiniLM
from surefind.retrieve.dense import Dense
from surefind.types import EVERY

PASSAGES, QUERIES, TOP = 100_000, 500, 100
SETTINGS = """
[index]
chunk = "whole"
enrich = []
[pipelines.hybrid]
retrieve = ["bm25", "dense"]
fuse = "convex(alpha=0.3)"
"""


def random_vectors(self: MiniLM, texts: list[str], progress: object = None) -> np.ndarray:
    """Replaces the encoder: a random unit vector for each text, the same for the same text."""
    vectors = np.stack([np.random.default_rng(list(text.encode()[:400])).normal(size=384) for text in texts])
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def write(folder: Path, texts: list[str]) -> None:
    for i, text in enumerate(texts):
        path = folder / f"{i // 1000:03}" / f"{i:06}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace")


def show(name: str, milliseconds: list[float]) -> None:
    p50, p95 = np.percentile(milliseconds, [50, 95])
    print(f"{name:10} p50 {p50:6.2f} ms   p95 {p95:6.2f} ms", flush=True)


def main(data: Path) -> None:
    print(machine("surefind", "numba", "numpy"))
    MiniLM.embed = random_vectors  # type: ignore[method-assign]
    texts, questions = passages_and_questions(data, PASSAGES, QUERIES)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "docs", texts)
        (folder / "surefind.toml").write_text(SETTINGS)
        kb = KnowledgeBase.open(folder)
        report = kb.sync(folder / "docs")
        print(f"{report.chunks:,} passages, synced in {report.seconds:.0f} s", flush=True)
        questions = [question for question in questions if question.strip()]
        for question in random.Random(3).sample(questions, 20):
            kb.search(question, Access.public())
        whole: list[float] = []
        stages: dict[str, list[float]] = {}
        for question in questions:
            started = time.perf_counter()
            result = kb.search(question, Access.public())
            whole.append((time.perf_counter() - started) * 1000)
            for entry in result.trace:
                stages.setdefault(entry.spec.partition("(")[0], []).append(entry.ms)
        encoder = statistics.median(encode_ms(question) for question in questions)
        print(f"(the random vectors take {encoder:.2f} ms of each query; the times below are without them)")
        stages["dense"] = [ms - encoder for ms in stages["dense"]]
        show("query", [ms - encoder for ms in whole])
        for stage, times in stages.items():
            show(f"  {stage}", times)
        index = kb.reader().view.index(Dense())
        points = random_vectors(MiniLM(), questions)
        exact = np.sort(points @ np.asarray(index.vectors).T, axis=1)[:, ::-1][:, :TOP]
        alone = np.concatenate([index.nearest(point[None], TOP, EVERY).scores for point in points])
        print(f"dense, top {TOP}: scores within {np.abs(alone - exact).max():.1e} of an exact scan")
        kb.close()


def encode_ms(question: str) -> float:
    started = time.perf_counter()
    random_vectors(MiniLM(), [question])
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    main(Path(sys.argv[1]))
