"""Compares the embedding cost of `semantic` with that of `fixed`, on the text of a BEIR folder.

    python benchmarks/chunking_cost.py data/covidqa-partial

Measured are the seconds that the bundled encoder takes for all texts that a layout embeds (sentences to find topic
changes, then chunks), without a cache, and the tokens given to the encoder, read or not. `fixed` is measured twice: at
700 tokens, of which the encoder reads the first 256 word pieces, and at the mean size of `semantic`'s chunks. "Cuts
kept" is the share of cuts that do not move if sentences are embedded whole instead of by their first 32 tokens.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from _shared import beir, machine
from surefind.bench.ingestion import sample
from surefind.chunk import semantic
from surefind.embed.minilm import MiniLM
from surefind.protocols import Embedder, Progress, Services
from surefind.services import LocalServices
from surefind.text.tokens import count_tokens
from surefind.types import Document, FloatArray
from surefind.write.layout import Layout

CHARACTERS = 40_000
SEMANTIC = "semantic(threshold=80, buffer=1, max_tokens={limit})"


class Timed(Services):
    """Adds up the time of embedding, and the tokens given to the encoder, read or not."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.tokens = 0

    def embedder(self, model: str) -> Embedder:
        services = self

        class Watched(MiniLM):
            def embed(self, texts: list[str], progress: Progress | None = None) -> FloatArray:
                started = time.perf_counter()
                vectors = super().embed(texts, progress)
                services.seconds += time.perf_counter() - started
                services.tokens += sum(map(count_tokens, texts))
                return vectors

        return Watched()


def embedded(layout: Layout, documents: list[Document]) -> Timed:
    services = Timed()
    chunks = [chunk for document in documents for chunk in layout.cut(document, services)]
    services.embedder("minilm").embed([chunk.searchable for chunk in chunks])
    return services


def cuts(layout: Layout, documents: list[Document]) -> set[tuple[str, int]]:
    return {(c.document, c.start) for document in documents for c in layout.cut(document, LocalServices())}


def main(folder: Path) -> None:
    print(machine("surefind", "onnxruntime"))
    rows = [Document(row["_id"], row["text"], row["title"]) for row in beir(folder)[0]]
    documents = sample(rows, CHARACTERS)
    MiniLM().embed(["warm"])
    for limit in (250, 800):
        layout = Layout.read(SEMANTIC.format(limit=limit))
        services = LocalServices()
        sizes = [count_tokens(c.text) for document in documents for c in layout.cut(document, services)]
        mean = int(np.mean(sizes))
        layouts = {
            "fixed 700, 20%": Layout.read("fixed(tokens=700, overlap=140)"),
            f"fixed {mean}, 20%": Layout.read(f"fixed(tokens={mean}, overlap={mean // 5})"),
            f"semantic, at most {limit}": layout,
        }
        spent = {name: embedded(one, documents) for name, one in layouts.items()}
        ours = spent[f"semantic, at most {limit}"]
        for name, one in spent.items():
            ratios = (
                f"semantic takes {ours.seconds / one.seconds:.2f}x the time, {ours.tokens / one.tokens:.2f}x the tokens"
            )
            print(f"{name:22} {one.seconds:6.2f} s {one.tokens:7} tokens; {ratios}")
        clipped = cuts(layout, documents)
        semantic._TELLING = 10_000
        whole = cuts(layout, documents)
        semantic._TELLING = 32
        print(f"cuts kept: {len(clipped & whole) / len(whole):.0%} of {len(whole)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
