"""Measures what the graph costs: building compared with embedding, memory per edge, a query, the first query of a new
mask.

    python benchmarks/graph.py KB [--chunks 10000]

KB is a knowledge base whose passages are already embedded (its cache is used). Passages are repeated under other
document names, with a number added to their text, until there are `--chunks`.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np

from surefind.base import spec
from surefind.base.access import Access
from surefind.base.types import EVERY, Chunk, Mask, Query
from surefind.engine.graph.derive import derive
from surefind.engine.graph.facts import Facts
from surefind.engine.graph.index import GraphIndex
from surefind.engine.graph.walk import ways
from surefind.kb import KnowledgeBase

_EMBEDDED = 60
"""Passages embedded to estimate the cost of embedding all."""
_QUERIES = 100
"""Queries timed in each measurement."""


def passages(kb: KnowledgeBase, count: int) -> list[Chunk]:
    view = kb.reader().view
    found = view.chunks(view.spans().ids.tolist(), Access.owner())
    made = []
    for i in range(count):
        turn, at = divmod(i, len(found))
        chunk = found[at]
        made.append(
            chunk if not turn else replace(chunk, document=f"{turn}/{chunk.document}", text=f"{chunk.text} {turn}")
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kb", type=Path)
    parser.add_argument("--chunks", type=int, default=10_000)
    options = parser.parse_args()
    with KnowledgeBase.open(options.kb) as kb:
        chunks = passages(kb, options.chunks)
        extractor = spec.make("extract", "phrases")
        encoder = spec.make("embed", "minilm")
        encoder.embed(["warm up"])
        sample = [chunks[i].searchable for i in np.linspace(0, len(chunks) - 1, _EMBEDDED).astype(int)]
        started = time.process_time()
        encoder.embed(sample)
        embedding = (time.process_time() - started) / _EMBEDDED * len(chunks)
        _ = derive(Facts.build(chunks[:50], extractor, kb.services), EVERY).once(ways)  # kernels compile here
        started = time.process_time()
        facts = Facts.build(chunks, extractor, kb.services)
        graph = derive(facts, EVERY)
        _ = graph.once(ways)
        building = time.process_time() - started
        edges = len(graph.entities)
        print(f"{len(chunks):,} passages, {len(graph.keys):,} entities, {edges:,} edges between them")
        print(f"build {building:.1f} s of CPU; embedding the same {embedding:.0f} s: {building / embedding:.1%}")
        folder = Path(kb.data / "graph-benchmark")
        folder.mkdir(exist_ok=True)
        facts.save(folder)
        del facts, graph
        gc.collect()
        tracemalloc.start()
        index = GraphIndex(Facts.load(folder), kb.services)
        held = index.graph(EVERY)
        _ = held.once(ways), held.named_in("warm up"), held.heads
        memory = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        print(f"memory {memory / 1e6:.1f} MB, {memory / edges:.0f} bytes per edge")
        ask(index, chunks)
        search(kb)


def ask(index: GraphIndex, chunks: list[Chunk]) -> None:
    """Times walks as in a search: from ten passages and the entities of a question, the first words of a passage."""
    stage = spec.make("retrieve", "ppr")
    rng = np.random.default_rng(1)
    times = []
    for i in rng.integers(0, len(chunks), _QUERIES).tolist():
        query = Query(" ".join(chunks[i].text.split()[:15]))
        near = rng.integers(0, len(chunks), 10).tolist()
        started = time.perf_counter()
        at, weights = stage._start(index.graph(EVERY), query.text, near, np.linspace(1, 0.1, 10).astype(np.float32))
        index.graph(EVERY).once(ways).near(at, weights, stage.damping, 1e-5)
        times.append((time.perf_counter() - started) * 1000)
    p50, p95 = np.percentile(times, [50, 95])
    print(f"walk p50 {p50:.2f} ms, p95 {p95:.2f} ms")
    allow = Mask(rng.random(len(chunks)) < 0.8)
    started = time.perf_counter()
    _ = index.graph(allow).once(ways)
    print(f"first query of a new mask {(time.perf_counter() - started) * 1000:.0f} ms more")


def search(kb: KnowledgeBase) -> None:
    """Times whole queries over the knowledge base: with embedding the question, and after `dense` has embedded it."""
    dense, ppr = (spec.make("retrieve", name) for name in ("dense", "ppr"))
    kb.build_for([dense, ppr])
    view, access = kb.reader().view, Access.owner()
    view.ready([dense, ppr])
    texts = [chunk.text for chunk in view.chunks(view.spans().ids.tolist(), access)]
    rng = np.random.default_rng(2)
    for before in ((), (dense,)):
        times = []
        for i in rng.integers(0, len(texts), _QUERIES).tolist():
            query = [Query(" ".join(texts[i].split()[:15]))]
            for stage in before:
                view.search(stage, query, 100, access)
            started = time.perf_counter()
            view.search(ppr, query, 100, access)
            times.append((time.perf_counter() - started) * 1000)
        p50, p95 = np.percentile(times, [50, 95])
        print(f"ppr over {len(texts):,} passages{' after dense' if before else ''}: p50 {p50:.1f} ms, p95 {p95:.1f} ms")


if __name__ == "__main__":
    main()
