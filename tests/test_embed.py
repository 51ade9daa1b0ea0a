"""The cache of vectors, and what the encoder says when it is missing or damaged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from surefind import spec
from surefind.embed._cache import CachedEmbedder, VectorCache
from surefind.embed._onnx import OnnxEncoder
from surefind.errors import CorruptIndexError, MissingPartError
from surefind.protocols import Progress
from surefind.types import FloatArray
from toy_stages import ToyEmbedder


class Counting:
    """The toy encoder, remembering what it was asked."""

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
    assert np.array_equal(cached.embed(texts), ToyEmbedder().embed(texts))


def test_cache_survives_closing(cache: VectorCache, tmp_path: Path) -> None:
    CachedEmbedder(Counting(), cache).embed(["a", "b"])
    cache.close()
    again = Counting()
    CachedEmbedder(again, VectorCache(tmp_path / "cache" / "vectors.db")).embed(["a", "b"])
    assert again.asked == []


def test_other_model_does_not_share_vectors(cache: VectorCache) -> None:
    CachedEmbedder(Counting("model:1"), cache).embed(["a", "b"])
    other = Counting("model:2")
    CachedEmbedder(other, cache).embed(["a", "b"])
    assert sorted(other.asked) == ["a", "b"]


def test_single_text_is_a_query_and_leaves_no_trace(cache: VectorCache, tmp_path: Path) -> None:
    CachedEmbedder(Counting(), cache).embed(["a"])
    assert not (tmp_path / "cache").exists()


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
