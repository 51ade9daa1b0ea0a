"""BM25 against a plain formula on real text; dense retrieval against numpy; golden numbers."""

from __future__ import annotations

import sys
from collections import Counter
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from helpers import EXAMPLE
from surefind.base import spec
from surefind.base.abilities import query_tokens
from surefind.base.types import EVERY, Chunk, Document, Mask, Query
from surefind.engine.analyze import analyze
from surefind.engine.retrieve import _kernels, _plain, _postings, _vectors
from surefind.engine.retrieve._postings import Postings
from surefind.engine.retrieve._vectors import Vectors
from surefind.engine.retrieve.bm25 import BM25
from surefind.engine.services import LocalServices
from surefind.engine.write.layout import Layout
from surefind.testing import check_rankings
from toy_stages import ToyEmbedder

QUESTIONS = [
    "When is a CTR due?",
    "CU*BASE EOD-7 job failure",
    "who may approve a wire of more than $10,000",
    "the the member member member",
    "31 CFR 1020.320(d)",
]


def chunks_of(*texts: str) -> list[Chunk]:
    return [Chunk(f"{i}.md", 0, len(text), text) for i, text in enumerate(texts)]


def bm25_scores(texts: list[list[str]], query: list[str], k1: float, b: float) -> list[float]:
    """The formula of the docstring, term by term, with Python floats."""
    average = sum(map(len, texts)) / len(texts)
    counts = [Counter(text) for text in texts]
    containing = Counter(term for count in counts for term in count)
    scores = []
    for text, count in zip(texts, counts, strict=True):
        score = 0.0
        for term in query:
            n, f = containing[term], count[term]
            idf = log(1 + (len(texts) - n + 0.5) / (n + 0.5))
            score += idf * f * (k1 + 1) / (f + k1 * (1 - b + b * len(text) / average)) if f else 0.0
        scores.append(score)
    return scores


@pytest.fixture(scope="module")
def passages() -> list[Chunk]:
    layout = Layout.parse("markdown", ["headings"])
    files = sorted(EXAMPLE.glob("sops/*.md"))[:25]
    documents = [Document(path.name, path.read_text(encoding="utf-8")) for path in files]
    return [chunk for document in documents for chunk in layout.cut(document, LocalServices())]


@pytest.fixture(scope="module")
def index(passages: list[Chunk]) -> Postings:
    return BM25().build(passages, LocalServices())


def query_terms(analyzer: Any, question: str) -> list[str]:
    return [term for token in query_tokens(analyzer, question) for term in analyzer.terms(token)]


@each(("k1", "b"), [(1.5, 0.75), (0.9, 0.4), (0.0, 0.75), (2.0, 0.0), (1.2, 1.0)])
def test_bm25_equals_the_formula_on_real_text(passages: list[Chunk], index: Postings, k1: float, b: float) -> None:
    """One index serves every k1 and b."""
    analyzer = spec.make("analyze", "english")
    texts = [analyze(analyzer, chunk.searchable) for chunk in passages]
    found = index.search(BM25(k1, b), [Query(question) for question in QUESTIONS], len(passages), EVERY)
    for i, question in enumerate(QUESTIONS):
        expected = bm25_scores(texts, query_terms(analyzer, question), k1, b)
        ordinals, scores = found.row(i)
        assert len(ordinals) == sum(score > 0 for score in expected)
        assert scores == pytest.approx([expected[o] for o in ordinals], abs=1e-4)


def test_kernels_are_compiled_once_for_an_index_that_was_built_and_one_that_was_loaded(
    index: Postings, tmp_path: Path
) -> None:
    index.save(tmp_path)
    loaded = Postings.load(tmp_path, spec.make("analyze", "english"))
    kinds = []
    for either in (index, loaded):
        assert len(either.search(BM25(), [Query(QUESTIONS[0])], 5, EVERY).row(0)[0]) == 5
        kinds.append(len(_kernels.search.signatures))
    assert kinds[0] == kinds[1]


@each("masked", [False, True])
@each(("k1", "b"), [(1.5, 0.75), (0.0, 0.75), (2.0, 0.0)])
def test_a_search_without_kernels_gives_the_same_bits(
    passages: list[Chunk], index: Postings, k1: float, b: float, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    allow = Mask(rng.random(len(passages)) < 0.5) if masked else EVERY
    words = sorted({word for chunk in passages for word in chunk.text.split()})
    drawn = [" ".join(rng.choice(words, 1 + i % 9).tolist()) for i in range(100)]
    for question in [*QUESTIONS, *drawn, "the the of of", "zzz", "cash cash cash"]:
        for k in (1, 10, len(passages)):
            found = []
            for plain in (False, True):
                monkeypatch.setattr(_postings, "suffices", lambda *_, plain=plain: plain)
                found.append(index.search(BM25(k1, b), [Query(question)], k, allow))
            assert np.array_equal(found[0].ids, found[1].ids), question
            assert np.array_equal(found[0].scores, found[1].scores), question


@each("allowed", [1.0, 0.5, 0.01])
def test_a_scan_without_kernels_gives_the_same_bits(allowed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((3000, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = Vectors(vectors, None)  # type: ignore[arg-type]
    allow = Mask(rng.random(3000) < allowed)
    for point in vectors[:40]:
        for k in (1, 10, 100):
            found = []
            for plain in (False, True):
                monkeypatch.setattr(_vectors, "suffices", lambda *_, plain=plain: plain)
                found.append(index.nearest(point[None], k, allow))
            assert np.array_equal(found[0].ids, found[1].ids)
            assert np.array_equal(found[0].scores, found[1].scores)


@each("size", [0, 1, 7, 300])
def test_an_index_built_without_kernels_has_the_same_bits(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From texts alone, and merged with an earlier index of which some chunks are gone."""
    rng = np.random.default_rng(size)
    words = [*(f"word{i}" for i in range(40)), "the", "part-time", "don't", "Ärger"]
    texts = [" ".join(rng.choice(words, rng.integers(0, 60)).tolist()) for _ in range(size)]
    huge = min(size // 9, 2)
    texts[:huge] = ["cash " * 70_000] * huge  # more than a frequency can hold
    origin = np.where(rng.random(size) < 0.5, rng.permutation(size), -1).astype(np.int32)
    analyzer = spec.make("analyze", "english")
    made = []
    for plain in (False, True):
        monkeypatch.setattr(_plain, "suffices", lambda *_, plain=plain: plain)
        first = Postings.build(texts, analyzer)
        made += [first, Postings.build(texts[::-1], analyzer, first, origin)]
    assert made[0].vocabulary == made[2].vocabulary and made[1].vocabulary == made[3].vocabulary
    for name in ("starts", "docs", "shapes", "shape_tfs", "shape_lengths", "lengths"):
        for compiled, plain in ((made[0], made[2]), (made[1], made[3])):
            ours, theirs = getattr(plain, name), getattr(compiled, name)
            assert ours.dtype == theirs.dtype and np.array_equal(ours, theirs), name


@each("allowed", [1.0, 0.3])
def test_a_query_gets_the_same_chunks_alone_and_among_many(allowed: float) -> None:
    """Many vectors are equal, so that the last places are ties."""
    rng = np.random.default_rng(6)
    vectors = np.repeat(rng.standard_normal((60, 48)), 20, axis=0).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index, allow = Vectors(vectors, None), Mask(rng.random(len(vectors)) < allowed)  # type: ignore[arg-type]
    points = rng.standard_normal((40, 48)).astype(np.float32)
    for k in (1, 7, 30):
        together = index.nearest(points, k, allow)
        for i, point in enumerate(points):
            alone = index.nearest(point[None], k, allow)
            assert np.array_equal(together.ids[i], alone.ids[0]) and np.array_equal(together.scores[i], alone.scores[0])


def test_kernels_are_used_once_they_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _plain.suffices(10, 1, "_kernels"), "this process has loaded them"
    monkeypatch.delitem(sys.modules, "surefind.engine.retrieve._kernels")
    assert _plain.suffices(10, 1, "_kernels")
    assert not _plain.suffices(10, 2, "_kernels") and not _plain.suffices(10**7, 1, "_kernels")


def test_bm25_scores_of_a_tiny_corpus_written_out() -> None:
    """3 chunks of 2, 1 and 3 terms; `cash` is in two of them, once and twice."""
    index = BM25(analyzer="plain").build(chunks_of("cash report", "card", "cash cash box"), LocalServices())
    ordinals, scores = index.search(BM25(), [Query("cash")], 5, EVERY).row(0)
    idf = log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    assert ordinals.tolist() == [2, 0]
    assert scores.tolist() == pytest.approx(
        [
            idf * 2 * 2.5 / (2 + 1.5 * (1 - 0.75 + 0.75 * 3 / 2)),
            idf * 1 * 2.5 / (1 + 1.5 * (1 - 0.75 + 0.75 * 2 / 2)),
        ],
        abs=1e-6,
    )


def test_bm25_golden_numbers() -> None:
    texts = "the teller files a CTR", "a CTR is due in 15 days", "wires above $10,000 need two approvals"
    index = BM25().build(chunks_of(*texts), LocalServices())
    ordinals, scores = index.search(BM25(), [Query("CTR filing deadline in days")], 3, EVERY).row(0)
    assert ordinals.tolist() == [0, 1]
    assert scores.tolist() == pytest.approx([1.6840, 1.5029], abs=1e-3)


def test_word_said_twice_in_the_query_counts_twice() -> None:
    index = BM25().build(chunks_of("cash report", "card"), LocalServices())
    once, twice = (index.search(BM25(), [Query(q)], 1, EVERY).scores[0, 0] for q in ("cash", "cash cash"))
    assert twice == pytest.approx(2 * once)


@pytest.mark.parametrize("share", [0, 10**6], ids=["all sparse", "all dense"])
def test_rows_of_frequent_terms_give_the_same_scores(
    passages: list[Chunk], index: Postings, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [Query(question) for question in QUESTIONS]
    expected = index.search(BM25(), queries, 50, EVERY)
    monkeypatch.setattr(_postings, "DENSE_SHARE", share)
    other = BM25().build(passages, LocalServices())
    assert (other._dense_of >= 0).any() == bool(share)
    assert other.search(BM25(), queries, 50, EVERY).scores == pytest.approx(expected.scores, abs=1e-5)


def test_term_more_frequent_than_a_byte_can_say_is_counted_in_full() -> None:
    texts = ["cash " * 300, "cash " * 40, "card"]
    index = BM25(analyzer="plain").build(chunks_of(*texts), LocalServices())
    found = index.search(BM25(k1=100, b=0), [Query("cash")], 3, EVERY)
    expected = bm25_scores([text.split() for text in texts], ["cash"], 100, 0)
    assert found.row(0)[1].tolist() == pytest.approx(expected[:2], abs=1e-4)


def test_equal_chunks_stand_in_order_of_ordinal() -> None:
    index = BM25().build(chunks_of(*["cash report"] * 200), LocalServices())
    assert index.search(BM25(), [Query("cash")], 5, EVERY).ids.tolist() == [[0, 1, 2, 3, 4]]


def test_retrievers_that_differ_in_search_time_parameters_share_an_index() -> None:
    specs = [made.index_spec(LocalServices()) for made in (BM25(k1=0.5, b=0), BM25(), BM25(analyzer="plain"))]
    assert specs[0] == specs[1] != specs[2]


texts_of_few_words = st.lists(st.lists(st.sampled_from("cash card wire hold the a".split()), max_size=6), max_size=12)


@given(texts_of_few_words, texts_of_few_words, st.randoms())
def test_bm25_index_grown_from_any_earlier_one_is_the_same_index(before: list, added: list, random: object) -> None:
    """Not only the same answers: the same arrays."""
    from surefind.base.protocols import Reuse

    old = [" ".join(words) for words in before]
    new = [(i, text) for i, text in enumerate(old) if random.random() < 0.6]
    for words in added:
        new.insert(random.randint(0, len(new)), (-1, " ".join(words)))
    bm25, services = BM25(), LocalServices()
    earlier = bm25.build(chunks_of(*old), services)
    origin = np.array([i for i, _ in new], dtype=np.int32)
    chunks = chunks_of(*(text for _, text in new))
    grown, fresh = bm25.build(chunks, services, Reuse(earlier, origin)), bm25.build(chunks, services)
    assert grown.vocabulary == fresh.vocabulary
    for name in ("starts", "docs", "tfs", "lengths"):
        assert np.array_equal(getattr(grown, name), getattr(fresh, name)), name


# ---------------------------------------------------------------- dense


def unit(n: int, seed: int, dimension: int = 16) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(n, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@each("allowed", [None, 0.5, 0.02])
def test_dense_search_equals_numpy(allowed: float | None) -> None:
    vectors, points = unit(500, seed=1), unit(30, seed=2)
    mask = None if allowed is None else np.random.default_rng(3).random(500) < allowed
    found = Vectors(vectors, ToyEmbedder()).nearest(points, 10, Mask(mask))
    check_rankings(found, 30, 10, 500, Mask(mask))
    similar = points @ vectors.T
    if mask is not None:
        similar[:, ~mask] = -np.inf
    best = np.argsort(-similar, axis=1)[:, : found.ids.shape[1]]
    assert found.ids.shape[1] == min(10, 500 if mask is None else int(mask.sum()))
    assert np.array_equal(found.ids, best)
    assert found.scores == pytest.approx(np.take_along_axis(similar, best, 1), abs=1e-5)


@pytest.mark.parametrize("queries", [1, 25], ids=["one query", "a batch"])
def test_equal_vectors_stand_in_order_of_ordinal(queries: int) -> None:
    vectors = np.repeat(unit(1, seed=1), 40, axis=0)
    found = Vectors(vectors, ToyEmbedder()).nearest(np.repeat(vectors[:1], queries, 0), 5, EVERY)
    assert (found.ids == np.arange(5)).all()


def test_approximate_index_finds_nearly_what_exact_search_finds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    vectors, points = unit(4000, seed=1), unit(50, seed=2)
    exact = Vectors.build(vectors, ToyEmbedder()).nearest(points, 10, EVERY)
    monkeypatch.setattr(_vectors, "EXACT_LIMIT", 1000)
    approximate = Vectors.build(vectors, ToyEmbedder())
    approximate.save(tmp_path)
    found = approximate.nearest(points, 10, EVERY)
    loaded = Vectors.load(tmp_path, ToyEmbedder()).nearest(points, 10, EVERY)
    shared = [len({*a} & {*b}) for a, b in zip(exact.ids.tolist(), found.ids.tolist(), strict=True)]
    assert (tmp_path / "codes.npy").exists()
    assert np.mean(shared) > 7
    assert np.array_equal(found.ids, loaded.ids)


def test_mask_on_an_approximate_index_leaves_only_what_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_vectors, "EXACT_LIMIT", 1000)
    monkeypatch.setattr(_vectors, "_MAX_GATHERED", 100)
    vectors, mask = unit(4000, seed=1), np.arange(4000) % 3 == 0
    found = Vectors.build(vectors, ToyEmbedder()).nearest(unit(5, seed=2), 10, Mask(mask))
    check_rankings(found, 5, 10, 4000, Mask(mask))
    assert (found.ids >= 0).all()


def test_few_allowed_chunks_are_all_found_in_an_approximate_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_vectors, "EXACT_LIMIT", 1000)
    mask = np.zeros(4000, np.bool_)
    mask[[5, 1999, 3999]] = True
    found = Vectors.build(unit(4000, seed=1), ToyEmbedder()).nearest(unit(5, seed=2), 10, Mask(mask))
    assert {frozenset(row) for row in found.ids.tolist()} == {frozenset({5, 1999, 3999})}


def test_minilm_golden_cosines() -> None:
    texts = [
        "A currency transaction report is due within 15 days.",
        "When must the CTR be filed?",
        "The cafeteria serves soup on Mondays.",
    ]
    a, b, c = spec.make("embed", "minilm").embed(texts)
    assert [float(a @ b), float(a @ c), float(b @ c)] == pytest.approx([0.302, -0.033, -0.080], abs=0.01)


def test_dense_index_is_named_by_the_weights_of_its_model() -> None:
    fingerprint = spec.make("embed", "minilm").fingerprint
    assert spec.make("retrieve", "dense").index_spec(LocalServices()) == f"dense(model=minilm)@{fingerprint}"


def test_price_and_batch_of_an_encoder_leave_its_index_alone() -> None:
    one, same, other = (
        spec.make("retrieve", f"dense(model=openai(model={model}, batch={batch}, price_per_million={price}))")
        for model, batch, price in (("a", 128, 0.02), ("a", 8, 0.5), ("b", 128, 0.02))
    )
    assert one.index_spec(LocalServices()) == same.index_spec(LocalServices()) != other.index_spec(LocalServices())


@pytest.mark.parametrize("queries", [1, 25], ids=["one query", "a batch"])
def test_search_over_near_identical_vectors_is_still_exact(queries: int) -> None:
    """Half precision cannot tell them apart, so the float32 vectors must be scanned after all."""
    rng = np.random.default_rng(7)
    centre = rng.normal(size=64)
    vectors = (centre + rng.normal(scale=1e-3, size=(3000, 64))).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    point = (centre / np.linalg.norm(centre)).astype(np.float32)[None]
    found = Vectors(vectors, ToyEmbedder()).nearest(np.repeat(point, queries, 0), 20, EVERY)
    best = np.sort(vectors @ point[0])[::-1][:20]
    for scores in found.scores:
        np.testing.assert_allclose(scores, best, atol=1e-6)


@each("share", [None, 0.9, 0.2, 0.01])
@each("k", [1, 30, 700])
def test_a_batch_finds_what_each_query_finds_alone(share: float | None, k: int) -> None:
    vectors, points = unit(3000, seed=1), unit(80, seed=2)
    allow = Mask(None if share is None else np.random.default_rng(3).random(3000) < share)
    index = Vectors(np.concatenate([vectors[:2400], vectors[:600]]), ToyEmbedder())
    batch = index.nearest(points, k, allow)
    for i, point in enumerate(points):
        alone = index.nearest(point[None], k, allow)
        assert np.array_equal(alone.ids[0], batch.ids[i]) and np.array_equal(alone.scores[0], batch.scores[i])


def test_python_m_surefind_is_the_command() -> None:
    import subprocess
    import sys

    result = subprocess.run([sys.executable, "-m", "surefind", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("surefind ")
