"""Compares the exact search of many vectors at once with that of faiss, over 1,000, 10,000 and 100,000 vectors.

    pip install faiss-cpu
    python benchmarks/vector_batches.py

Each engine has a process of its own, because the threads of one would keep the cores from the other, and the processes
take turns. A ratio is our time by that of faiss, each the least of all turns. The chunks that both find are compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from _shared import machine
from surefind.retrieve._plain import rescored
from surefind.retrieve._vectors import Vectors
from surefind.running.cores import usable_cores
from surefind.types import Mask

DIMENSION, TURNS, REPEATS = 384, 2, 3
SHARES = {"everything": 1.0, "nine in ten": 0.9, "one in ten": 0.1}
"""How many of the vectors a mask allows."""


def cases() -> Iterator[tuple[str, Any, Any, Mask, int]]:
    """The name of each case, the vectors, the points, the mask and k; the same in every process."""
    rng = np.random.default_rng(1)
    for n in (1_000, 10_000, 100_000):
        vectors = _unit(rng, n)
        for queries in (17, 64):
            points = _unit(rng, queries)
            for name, share in SHARES.items():
                mask = Mask(None if share == 1 else rng.random(n) < share)
                for k in (10, 100):
                    yield f"{n:,} vectors, {queries} queries, {name}, k={k}", vectors, points, mask, k


def _unit(rng: np.random.Generator, n: int) -> Any:
    rows = rng.standard_normal((n, DIMENSION)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Ours:
    def __init__(self, vectors: Any) -> None:
        self._index = Vectors(vectors, None)  # type: ignore[arg-type]

    def search(self, points: Any, mask: Mask, k: int) -> list[list[int]]:
        return [row[row >= 0].tolist() for row in self._index.nearest(points, k, mask).ids]


class Faiss:
    """As Surefind used it: faiss finds candidates, and they are scored again."""

    def __init__(self, vectors: Any) -> None:
        import faiss

        faiss.omp_set_num_threads(usable_cores())
        self._faiss, self._vectors = faiss, vectors
        self._index = faiss.IndexFlatIP(DIMENSION)
        self._index.add(vectors)

    def search(self, points: Any, mask: Mask, k: int) -> list[list[int]]:
        parameters = None
        if mask.bits is not None:
            bits = np.packbits(mask.bits, bitorder="little")
            selector = self._faiss.IDSelectorBitmap(len(mask.bits), self._faiss.swig_ptr(bits))
            parameters = self._faiss.SearchParameters(sel=selector)
        allowed = len(self._vectors) if mask.count is None else mask.count
        _, found = self._index.search(points, min(allowed, 2 * k + 100), params=parameters)
        rows = []
        for point, places in zip(points, found, strict=True):
            own = places[places >= 0]
            rows.append(own[np.lexsort((own, -rescored(self._vectors[own], point)))[:k]].tolist())
        return rows


def engine(name: str) -> None:
    """Prints the milliseconds per query and a sum of the chunks found, for each case."""
    index, of, made = None, None, {}
    for case, vectors, points, mask, k in cases():
        if of is not vectors:
            index, of = (Ours if name == "ours" else Faiss)(vectors), vectors
        times = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            rows = index.search(points, mask, k)
            times.append((time.perf_counter() - started) * 1000 / len(points))
        made[case] = min(times), sum(hash(tuple(row)) for row in rows)
    print(json.dumps(made))


def main() -> None:
    if len(sys.argv) > 1:
        engine(sys.argv[1])
        return
    print(machine("surefind", "faiss-cpu", "numpy"))
    for threads in (1, usable_cores()):
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
        turns: dict[str, list[dict[str, Any]]] = {"faiss": [], "ours": []}
        for _ in range(TURNS):
            for name, results in turns.items():
                call = [sys.executable, __file__, name]
                results.append(
                    json.loads(subprocess.run(call, check=True, capture_output=True, env=environment).stdout)
                )
        print(f"\n{threads} threads: milliseconds per query, faiss and ours, and the ratio")
        for case in turns["ours"][0]:
            theirs, ours = (min(turn[case][0] for turn in results) for results in turns.values())
            same = turns["ours"][0][case][1] == turns["faiss"][0][case][1]
            print(f"{case}: {theirs:.3f} {ours:.3f} {ours / theirs:.2f}{'' if same else ', other chunks'}")


if __name__ == "__main__":
    main()
