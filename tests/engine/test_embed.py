"""The cache of vectors, and what the encoder says when it is missing or damaged."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from surefind.base import spec
from surefind.base.errors import CorruptIndexError, MissingPartError
from surefind.base.protocols import Progress
from surefind.base.types import EVERY, Chunk, FloatArray, Query
from surefind.engine.embed.concat import Concat
from surefind.engine.embed.prefixed import Prefixed
from surefind.engine.inference.encoder import OnnxEncoder
from surefind.engine.services import LocalServices
from surefind.engine.store.vectors import CachedEmbedder, VectorCache, packed, unpacked
from toy_stages import ToyEmbedder


class Counting:
    """The toy encoder, cached_scorer what it was asked."""

    dimension = ToyEmbedder.dimension

    def __init__(self, fingerprint: str = "counting:1") -> None:
        self.fingerprint = fingerprint
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        self.asked.extend(texts)
        return ToyEmbedder().embed(texts)


@pytest.fixture
def cache(tmp_path: Path) -> VectorCache:
    return VectorCache(tmp_path / "cache" / "vectors.db")


def rounded(vectors: FloatArray) -> FloatArray:
    return unpacked(packed(vectors))


def test_numbers_are_rounded_to_a_32767th_of_the_largest() -> None:
    vectors = np.array([[0.5, -0.25, 0.1], [0.0, 0.0, 0.0], [1e-30, 2e-30, -4e-30]], np.float32)
    rows = packed(vectors)
    assert rows.shape == (3, 4 + 3 * 2) and rows.dtype == np.uint8
    scale = np.float32(0.5) / np.float32(32767)
    assert np.array_equal(unpacked(rows)[0], np.array([32767, -16384, 6553], np.float32) * scale)
    assert np.array_equal(unpacked(rows)[1], vectors[1])
    assert np.abs(unpacked(rows) - vectors).max() < 0.5 * 0.5 / 32767 * 1.01
    assert np.array_equal(rounded(rounded(vectors)), rounded(vectors))
    assert np.isnan(rounded(np.array([[np.nan, 1.0]], np.float32))).all(), "a broken encoder is not hidden"


def test_a_vector_is_the_same_computed_and_cached_with_and_without_a_cache(cache: VectorCache) -> None:
    texts = ["when is it due?", "where?"]
    alone, cached = CachedEmbedder(ToyEmbedder()), CachedEmbedder(ToyEmbedder(), cache)
    first = cached.embed(texts)
    assert np.array_equal(first, cached.embed(texts)) and np.array_equal(first, alone.embed(texts))
    assert np.array_equal(first[:1], cached.embed(texts[:1]))


def test_text_is_embedded_once(cache: VectorCache) -> None:
    inner = Counting()
    cached = CachedEmbedder(inner, cache)
    cached.embed(["a", "b", "a"])
    cached.embed(["b", "c"])
    assert sorted(inner.asked) == ["a", "b", "c"]


def test_cached_vectors_stand_in_the_order_of_the_texts(cache: VectorCache) -> None:
    cached = CachedEmbedder(Counting(), cache)
    cached.embed(["long long text", "short"])
    texts = ["short", "new and longer than all", "long long text", "short"]
    assert np.array_equal(cached.embed(texts), rounded(ToyEmbedder().embed(texts)))


def test_cache_survives_closing(cache: VectorCache, tmp_path: Path) -> None:
    CachedEmbedder(Counting(), cache).embed(["a", "b"])
    cache.close()
    again = Counting()
    CachedEmbedder(again, VectorCache(tmp_path / "cache" / "vectors.db")).embed(["a", "b"])
    assert again.asked == []


def test_a_cache_is_shared_by_threads(cache: VectorCache) -> None:
    """All begin at once, so that each of them finds it closed."""
    begin = threading.Barrier(8)
    failed: list[object] = []

    def work(thread: int) -> None:
        begin.wait()
        try:
            for i in range(20):
                rows = [(f"{thread} {i} {n}".encode(), b"vector") for n in range(10)]
                cache.put(rows)
                assert cache.get([key for key, _ in rows]) == dict(rows)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_other_model_does_not_share_vectors(cache: VectorCache) -> None:
    CachedEmbedder(Counting("model:1"), cache).embed(["a", "b"])
    other = Counting("model:2")
    CachedEmbedder(other, cache).embed(["a", "b"])
    assert sorted(other.asked) == ["a", "b"]


def test_single_text_is_a_query_and_leaves_no_trace(cache: VectorCache, tmp_path: Path) -> None:
    CachedEmbedder(Counting(), cache).embed(["a"])
    assert not (tmp_path / "cache").exists()


def test_last_questions_are_embedded_once_with_or_without_a_cache(cache: VectorCache) -> None:
    for there in (cache, None):
        inner = Counting()
        cached = CachedEmbedder(inner, there)
        first = cached.embed_queries(["when is it due?"])
        assert np.array_equal(cached.embed_queries(["when is it due?"]), first)
        assert inner.asked == ["when is it due?"]
        cached.embed_queries(["where?"])
        assert inner.asked == ["when is it due?", "where?"]


def test_width_of_what_is_cached_is_not_asked_of_the_encoder(cache: VectorCache) -> None:
    CachedEmbedder(Counting(), cache).embed(["a", "b"])

    class Unreachable(Counting):
        @property
        def dimension(self) -> int:
            raise AssertionError("a server was asked")

    found = CachedEmbedder(Unreachable(), cache).embed(["b", "a"])
    assert np.array_equal(found, rounded(ToyEmbedder().embed(["b", "a"])))


def test_questions_and_passages_have_their_own_prefixes(cache: VectorCache) -> None:
    marked = Prefixed("minilm", query="query: ", passage="passage: ")
    minilm = spec.make("embed", "minilm")
    cached = CachedEmbedder(marked, cache)
    for encoder, given in ((marked, np.asarray), (cached, rounded)):
        passages, questions = (given(minilm.embed([f"{kind}: cash", f"{kind}: wire"])) for kind in ("passage", "query"))
        assert np.array_equal(encoder.embed(["cash", "wire"]), passages)
        assert np.array_equal(encoder.embed_queries(["cash", "wire"]), questions)
    both = Concat((str(marked), "minilm"))
    parts = [minilm.embed(["query: cash"]), minilm.embed(["cash"])]
    assert np.allclose(both.embed_queries(["cash"]), np.hstack(parts) / np.sqrt(2))


def test_prefix_of_questions_leaves_the_index_alone() -> None:
    specs = [f'dense(model=prefixed(query="{q}: ", passage="{p}: "))' for q, p in (("a", "x"), ("b", "x"), ("a", "y"))]
    first, other_questions, other_passages = (spec.make("retrieve", text).index_spec(LocalServices()) for text in specs)
    assert first == other_questions != other_passages
    prints = {spec.make("embed", str(Prefixed(query=q))).query_fingerprint for q in ("a: ", "b: ")}
    assert len(prints) == 2


def test_dense_retrieval_asks_with_the_prefix_of_questions() -> None:
    retriever = spec.make("retrieve", 'dense(model=prefixed(query="cafeteria soup ", passage=""))')
    texts = ["A currency transaction report is due within 15 days.", "The cafeteria serves soup on Mondays."]
    chunks = [Chunk(f"{i}.md", 0, len(text), text) for i, text in enumerate(texts)]
    found = retriever.build(chunks, LocalServices()).search(retriever, [Query("report")], 1, EVERY)
    assert found.ids[0].tolist() == [1]


def test_progress_ends_at_the_total(cache: VectorCache) -> None:
    seen: list[tuple[int, int]] = []
    CachedEmbedder(Counting(), cache).embed(["a", "b"], lambda done, total: seen.append((done, total)))
    assert seen[-1] == (2, 2)


def test_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingPartError, match=f"There is no model in {tmp_path}"):
        OnnxEncoder(tmp_path)


def test_damaged_model_file_is_named(tmp_path: Path) -> None:
    config = {"name": "m", "dimension": 4, "max_tokens": 8, "sha256": {"model.onnx": "0" * 64}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.onnx").write_bytes(b"garbage")
    with pytest.raises(CorruptIndexError, match=r"model\.onnx is damaged"):
        OnnxEncoder(tmp_path).embed(["text"])


def test_text_longer_than_the_model_reads_is_cut_not_refused() -> None:
    vectors = spec.make("embed", "minilm").embed(["cash report " * 300, "cash report " * 3000])
    assert np.allclose(vectors[0], vectors[1], atol=1e-5)


def test_text_with_a_lone_surrogate_is_embedded() -> None:
    assert spec.make("embed", "minilm").embed(["broken \ud800 text"]).shape == (1, 384)
