"""Measures what smaller numbers in vectors change: `python benchmarks/vector_rounding.py`.

Passages and questions of the sample are embedded by the bundled encoder and rounded in several ways. Counted are the
questions, of 175, whose first ten passages stay the same in the same order: by vectors alone, and by vectors and BM25
in equal parts.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

from _shared import machine
from surefind import Access, spec
from surefind.kb import KnowledgeBase
from surefind.kb.sample import sample_folder, sample_questions
from surefind.store.vectors import packed, unpacked
from surefind.types import FloatArray, Query

SETTINGS = '[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n'


def eight_bits(vectors: FloatArray) -> FloatArray:
    scales = np.abs(vectors).max(axis=1, keepdims=True) / 127
    return (np.round(vectors / scales) * scales).astype(np.float32)


def upper_24_bits(vectors: FloatArray) -> FloatArray:
    return (vectors.view(np.uint32) & np.uint32(0xFFFFFF00)).view(np.float32)


WAYS = {
    "32 bits": lambda vectors: vectors,
    "24 bits": upper_24_bits,
    "16 bits, a scale for each vector": lambda vectors: unpacked(packed(vectors)),
    "16-bit floats": lambda vectors: vectors.astype(np.float16).astype(np.float32),
    "8 bits, a scale for each vector": eight_bits,
}


def scaled(scores: FloatArray) -> FloatArray:
    low, high = scores.min(axis=1, keepdims=True), scores.max(axis=1, keepdims=True)
    return (scores - low) / np.maximum(high - low, 1e-9)


def main() -> None:
    print(machine("surefind", "numpy"))
    asked = [json.loads(line)["query"] for line in sample_questions().read_text(encoding="utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "surefind.toml").write_text(SETTINGS, encoding="utf-8")
        with KnowledgeBase.open(home) as kb:
            kb.sync(sample_folder())
            view, (bm25,) = kb.reader().view, kb.settings.retrievers
            ids = view.spans().ids
            texts = [chunk.searchable for chunk in view.chunks(ids.tolist(), Access.owner())]
            words = view.score(bm25, [Query(text) for text in asked], np.tile(ids, (len(asked), 1)), Access.owner())
    encoder = spec.make("embed", "minilm")
    passages, questions = encoder.embed(texts), encoder.embed(asked)
    first: dict[str, tuple[FloatArray, FloatArray]] = {}
    for way, rounded in WAYS.items():
        dense = rounded(questions) @ rounded(passages).T
        both = (scaled(dense) + scaled(np.where(np.isfinite(words), words, 0))) / 2
        for name, scores in (("vectors", dense), ("vectors and BM25", both)):
            top = np.argsort(-scores, axis=1, kind="stable")[:, :10]
            expected, exact = first.setdefault(name, (top, scores))
            same, change = int((top == expected).all(axis=1).sum()), float(np.abs(scores - exact).max())
            print(f"{way}, {name}: {same} of {len(asked)} the same, scores change by {change:.1g} at most", flush=True)


if __name__ == "__main__":
    main()
