"""`concat`: vectors of several encoders, one after another."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from surefind.base import spec
from surefind.base.errors import SpecError
from surefind.base.protocols import Progress
from surefind.base.spec import Stage
from surefind.base.types import EVERY, Chunk, FloatArray, Query
from surefind.engine.embed.concat import Concat
from surefind.engine.services import LocalServices
from surefind.testing import TEXTS, check_embedder, check_stage


@dataclass(frozen=True)
class Hashed(Stage):
    """Bags of words by their hash, with two parameters to tell encoders apart."""

    kind: ClassVar[str] = "embed"
    name: ClassVar[str] = "hashed"

    path: str = "here"
    dimension: int = 32

    @property
    def fingerprint(self) -> str:
        return str(self)

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        vectors = np.full((len(texts), self.dimension), 0.01, np.float32)
        for done, (row, text) in enumerate(zip(vectors, texts, strict=True), 1):
            for word in text.split():
                row[zlib.crc32((self.path + word).encode()) % self.dimension] += 1
            if progress:
                progress(done, len(texts))
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(autouse=True)
def hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = spec.find
    monkeypatch.setattr(spec, "find", lambda kind, name: Hashed if name == "hashed" else real(kind, name))


def test_cosine_is_the_mean_of_the_cosines() -> None:
    models = ("minilm", "hashed(dimension=16)", 'hashed(path="C:\\\\my models")')
    vectors = Concat(models).embed(TEXTS)
    cosines = [v @ v.T for v in (spec.make("embed", model).embed(TEXTS) for model in models)]
    assert vectors.shape == (len(TEXTS), 384 + 16 + 32)
    assert vectors.dtype == np.float32
    assert vectors @ vectors.T == pytest.approx(np.mean(cosines, axis=0), abs=1e-5)


def test_encoder_named_twice_has_twice_the_say() -> None:
    a, b = (spec.make("embed", model).embed(TEXTS) for model in ("minilm", "hashed"))
    vectors = Concat(("minilm", "hashed", "minilm")).embed(TEXTS)
    assert vectors @ vectors.T == pytest.approx((2 * a @ a.T + b @ b.T) / 3, abs=1e-5)


def test_concatenation_of_one_is_that_one() -> None:
    assert np.array_equal(Concat(("minilm",)).embed(TEXTS), spec.make("embed", "minilm").embed(TEXTS))


@pytest.mark.parametrize(
    "text",
    [
        "concat",
        "concat(models=[minilm, hashed])",
        "concat(models=[hashed(path=a/b, dimension=16), minilm])",
        'concat(models=["hashed(path=a/b)", hashed(path="with, comma] (and) \\"quotes\\"")])',
        "concat(models=[minilm, concat(models=[hashed, hashed(dimension=8)])])",
    ],
)
def test_nested_specs_read_back(text: str) -> None:
    stage = spec.make("embed", text)
    check_stage(stage)
    check_embedder(stage)


def test_encoders_written_differently_are_the_same_stage() -> None:
    texts = (
        "concat(models=[hashed(dimension=32,path=here), minilm])",
        'concat(models=["hashed( path = here )", minilm()])',
        'concat(models=[hashed, "minilm"])',
    )
    assert len({spec.make("embed", text) for text in texts}) == 1
    assert str(spec.make("embed", texts[0])) == "concat(models=[hashed(path=here, dimension=32), minilm])"


def test_fingerprint_says_which_and_in_what_order() -> None:
    models = [("hashed", "minilm"), ("minilm", "hashed"), ("minilm", "hashed(dimension=8)"), ("minilm",), ("hashed",)]
    prints = {Concat(names).fingerprint for names in models} | {spec.make("embed", "minilm").fingerprint}
    assert len(prints) == 6
    assert all(spec.make("embed", model).fingerprint in Concat(models[0]).fingerprint for model in models[0])


def test_progress_counts_the_work_of_all() -> None:
    seen: list[tuple[int, int]] = []
    Concat(("hashed", "hashed(dimension=8)")).embed(["a", "b"], lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_dense_retrieval_by_a_concatenation() -> None:
    retriever = spec.make("retrieve", "dense(model=concat(models=[minilm, hashed(dimension=64)]))")
    chunks = [Chunk(f"{i}.md", 0, len(text), text) for i, text in enumerate(TEXTS)]
    found = retriever.build(chunks, LocalServices()).search(retriever, [Query("cash report")], 2, EVERY)
    check_stage(retriever)
    assert spec.make("embed", "hashed(dimension=64)").fingerprint in retriever.index_spec(LocalServices())
    assert found.ids[0].tolist()[0] in (4, 5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("concat(models=[])", "at least one encoder"),
        ("concat(models=[minilm, nonesuch])", "no encoder called 'nonesuch'"),
        ("concat(models=[minilm(x=1)])", "minilm has no parameter 'x'"),
        ("concat(models=minilm)", "models must be a list of texts"),
    ],
)
def test_wrong_models_are_refused(text: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        spec.make("embed", text)
