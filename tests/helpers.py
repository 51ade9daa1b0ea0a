"""What several test files use: a folder with a knowledge base in it."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from surefind import Access, KnowledgeBase, SearchResult
from surefind.engine.write.intake import SyncReport

EXAMPLE = Path(__file__).parent.parent / "examples" / "quillhaven"

WORDS = """
[search]
pipeline = "words"

[pipelines.words]
retrieve = ["bm25"]
"""


def ask(
    kb: KnowledgeBase,
    query: str,
    k: int | None = None,
    groups: Sequence[str] = (),
    where: Sequence[str] = (),
    **more: Any,
) -> SearchResult:
    """A search that builds what its pipeline needs first, as the command line does."""
    if more.get("pipeline"):
        kb.build(more["pipeline"])
    return kb.search(query, Access.of(*groups, where=where), k, **more)


class Home:
    """A folder with a surefind.toml, documents below `docs/`, and a knowledge base."""

    def __init__(self, folder: Path, settings: str = WORDS) -> None:
        self.folder = folder
        self.docs = folder / "docs"
        self.docs.mkdir(parents=True, exist_ok=True)
        self.configure(settings)

    def configure(self, settings: str) -> None:
        (self.folder / "surefind.toml").write_text(settings, encoding="utf-8")

    def write(self, name: str, content: str | bytes, age: float = 60) -> Path:
        """A file below the folder, last written `age` seconds ago."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        then = time.time() - age
        os.utime(path, (then, then))
        return path

    def open(self) -> KnowledgeBase:
        return KnowledgeBase.open(self.folder)

    def sync(self, *names: str, **more: object) -> SyncReport:
        with self.open() as kb:
            return kb.sync(*(self.folder / name for name in names), **more)

    def found(self, query: str, **more: object) -> list[str]:
        """The documents of the hits, best first."""
        with self.open() as kb:
            return [hit.document for hit in ask(kb, query, **more).hits]

    def answers(self, *queries: str) -> list[list[tuple[str, str, float]]]:
        """(document, chunk, score) of every hit of every query."""
        with self.open() as kb:
            return [[(h.document, h.id, h.score) for h in ask(kb, q, k=50).hits] for q in queries]


def times_slower(large: Callable[[], object], small: Callable[[], object], enough: float, tries: int = 8) -> float:
    """How many times longer `large` takes than `small`, by the shortest of some tries of each: what else runs on the
    machine makes one longer, never shorter. No more tries than show that it is at most `enough`."""
    shortest = [float("inf"), float("inf")]
    for _ in range(tries):
        shortest = [min(kept, _seconds(work)) for kept, work in zip(shortest, (large, small), strict=True)]
        if shortest[0] <= enough * shortest[1]:
            break
    return shortest[0] / shortest[1]


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()  # its turns grow with all that other tests left behind
    try:
        started = time.process_time()
        work()
        return max(time.process_time() - started, 0.002)
    finally:
        gc.enable()


def integer_weights(model: Path) -> list[Any]:
    """The matrices by which an int8 graph multiplies its activations."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(model).graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    products = [node for node in graph.node if node.op_type in ("MatMulInteger", "QAttention")]
    return [numpy_helper.to_array(tensors[node.input[1]]) for node in products]
