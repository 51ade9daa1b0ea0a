"""The contract suites catch what they are there to catch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import each
from surefind.base.protocols import Services
from surefind.base.types import EVERY, Chunk, Document, Mask, Rankings
from surefind.engine.chunk.fixed import Fixed
from surefind.engine.enrich.headings import Headings
from surefind.engine.fuse.rrf import RRF
from surefind.engine.ingest.text import Text
from surefind.engine.retrieve.bm25 import BM25
from surefind.engine.services import LocalServices
from surefind.testing import (
    DOCUMENTS,
    check_chunker,
    check_embedder,
    check_enricher,
    check_fuser,
    check_rankings,
    check_reader,
    check_reranker,
    check_retriever,
    rankings_of,
)
from test_contracts import CHUNKS, QUERIES
from toy_stages import SharedWords, ToyEmbedder


class Changed:
    """A good stage whose method's result is spoiled."""

    def __init__(self, stage: Any, method: str, spoil: Callable[..., Any]) -> None:
        self._stage = stage
        setattr(self, method, lambda *given: spoil(getattr(stage, method)(*given), *given))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stage, name)


def shifted(chunks: list[Chunk], document: Document, services: Services) -> list[Chunk]:
    return [replace(chunk, start=chunk.start + 1) for chunk in chunks]


@each(
    ("spoil", "rule"),
    [
        (shifted, "Offsets must"),
        (lambda chunks, document, services: chunks[::-1], "in the order of the text"),
        (lambda chunks, document, services: chunks[:1], "No character may be lost"),
        (lambda chunks, document, services: chunks + chunks[-1:], "No chunk may occur twice"),
        (lambda chunks, document, services: [replace(c, document="other") for c in chunks], "must name its document"),
        (lambda chunks, document, services: chunks or [Chunk(document.id, 0, 0, "")], "Offsets must be inside"),
    ],
)
def test_broken_chunker_is_caught(spoil: Callable[..., Any], rule: str) -> None:
    with pytest.raises(AssertionError, match=rule):
        check_chunker(Changed(Fixed(tokens=20, overlap=5), "chunk", spoil), DOCUMENTS)


@each(
    ("spoil", "rule"),
    [
        (lambda chunks, document, given, services: [replace(c, text="x") for c in chunks], "nothing but the context"),
        (lambda chunks, document, given, services: chunks[1:], "return every chunk"),
        (lambda chunks, document, given, services: [replace(c, context="") for c in chunks], "keep earlier context"),
    ],
)
def test_broken_enricher_is_caught(spoil: Callable[..., Any], rule: str) -> None:
    document = DOCUMENTS[-1]
    chunks = [
        replace(chunk, context="before") for chunk in Fixed(tokens=20, overlap=0).chunk(document, LocalServices())
    ]
    with pytest.raises(AssertionError, match=rule):
        check_enricher(Changed(Headings(), "enrich", spoil), document, chunks)


def test_reader_that_crashes_on_a_bad_file_is_caught(tmp_path: Path) -> None:
    def crash(documents: Any, path: Path, key: str) -> Any:
        return [Document(key, path.read_bytes().decode(), "title")]

    (tmp_path / "good.txt").write_text("good")
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    with pytest.raises(AssertionError, match="refuse with SourceError, not UnicodeDecodeError"):
        check_reader(Changed(Text(), "read", crash), tmp_path / "good.txt", tmp_path / "bad.txt")


@each(
    ("spoil", "rule"),
    [
        (lambda vectors, texts: vectors * 2, "unit length"),
        (lambda vectors, texts: vectors.astype(np.float64), "float32"),
        (lambda vectors, texts: vectors[:1], "a row for each text"),
        (lambda vectors, texts: np.roll(vectors, len(texts) - 1, axis=1), "rest of the batch"),
        (lambda vectors, texts: vectors if len(texts) < 2 else vectors[[0] * len(texts)], "order of the batch"),
    ],
)
def test_broken_embedder_is_caught(spoil: Callable[..., Any], rule: str) -> None:
    with pytest.raises(AssertionError, match=rule):
        check_embedder(Changed(ToyEmbedder(), "embed", spoil))


def test_retriever_that_masks_after_top_k_is_caught(tmp_path: Path) -> None:
    class MaskAfter:
        def __init__(self, index: Any) -> None:
            self.index = index

        def search(self, retriever: Any, queries: Sequence[Any], k: int, allow: Mask) -> Rankings:
            found = self.index.search(retriever, queries, k, EVERY)
            rows = [found.row(i) for i in range(len(queries))]
            kept = [[(o, s) for o, s in zip(*row, strict=True) if allow.bits is None or allow.bits[o]] for row in rows]
            return rankings_of([([o for o, _ in row], [s for _, s in row]) for row in kept])

    broken = Changed(BM25(), "build", lambda index, *given: MaskAfter(index))
    with pytest.raises(AssertionError, match="before top-k"):
        check_retriever(broken, CHUNKS, QUERIES, LocalServices(), tmp_path)


def test_retriever_that_reuses_wrongly_is_caught(tmp_path: Path) -> None:
    def forget(index: Any, chunks: Any, services: Any, reuse: Any = None, progress: Any = None) -> Any:
        return reuse.index if reuse else index

    with pytest.raises(AssertionError, match="grown from an earlier one"):
        check_retriever(Changed(BM25(), "build", forget), CHUNKS, QUERIES, LocalServices(), tmp_path)


@each(
    ("spoil", "rule"),
    [
        (lambda r, given, k: replace(r, scores=r.scores * np.float32("nan")), "-inf|finite"),
        (lambda r, given, k: replace(r, ids=r.ids[:, ::-1].copy()), "Padding|sorted"),
        (lambda r, given, k: replace(r, scores=np.where(r.ids < 0, r.scores, -r.scores)), "sorted by score"),
        (lambda r, given, k: replace(r, ids=np.where(r.ids < 0, -1, 0).astype(np.int32)), "twice"),
        (
            lambda r, given, k: replace(r, ids=np.where(r.ids == 5, 0, r.ids).astype(np.int32)),
            "invent candidates|sorted",
        ),
    ],
)
def test_broken_fuser_is_caught(spoil: Callable[..., Any], rule: str) -> None:
    with pytest.raises(AssertionError, match=rule):
        check_fuser(Changed(RRF(), "fuse", spoil))


def test_fuser_that_looks_at_the_whole_batch_is_caught() -> None:
    def scale(rankings: Rankings, given: Any, k: int) -> Rankings:
        return replace(rankings, scores=(rankings.scores * len(rankings)).astype(np.float32))

    with pytest.raises(AssertionError, match="A batch of n must equal n batches of one"):
        check_fuser(Changed(RRF(), "fuse", scale))


def test_fuser_that_declares_a_wrong_synonym_is_caught() -> None:
    class Liar(RRF):
        def same_as(self, signals: object) -> str:
            return "convex(alpha=0.5)"

    with pytest.raises(AssertionError, match=r"must rank like convex\(alpha=0\.5\), which it declares in same_as"):
        check_fuser(Liar())


def test_reranker_that_invents_candidates_is_caught() -> None:
    class Passages:
        def __getitem__(self, ordinals: list[int]) -> list[Chunk]:
            return [CHUNKS[i] for i in ordinals]

    def invent(found: Rankings, *given: Any) -> Rankings:
        return replace(found, ids=np.where(found.ids == 3, 1, found.ids).astype(np.int32))

    rankings = rankings_of([([3], [2.0]), ([4], [1.0])])
    with pytest.raises(AssertionError, match="invent candidates"):
        check_reranker(Changed(SharedWords(), "rerank", invent), QUERIES[:2], rankings, Passages())


def test_hole_in_a_row_is_caught() -> None:
    ordinals, scores = np.array([[3, -1, 2]], np.int32), np.array([[2.0, -np.inf, 1.0]], np.float32)
    with pytest.raises(AssertionError, match="Padding must be at the end"):
        check_rankings(Rankings(ordinals, scores), 1, 3, 10)


def test_ties_out_of_order_are_caught() -> None:
    with pytest.raises(AssertionError, match="sorted by score, then by id"):
        check_rankings(rankings_of([([3, 2], [1.0, 1.0])]), 1, 3, 10)
