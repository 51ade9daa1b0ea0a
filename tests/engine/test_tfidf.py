"""TF-IDF against scikit-learn on real text and against written-out arithmetic."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import log, sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from helpers import EXAMPLE
from surefind.base import spec
from surefind.base.errors import SpecError
from surefind.base.protocols import Reuse
from surefind.base.types import EVERY, Chunk, Document, Mask, Query
from surefind.engine.analyze import analyze
from surefind.engine.retrieve._tfidf import Features
from surefind.engine.retrieve.tfidf import TfIdf
from surefind.engine.services import LocalServices
from surefind.engine.write.layout import Layout
from surefind.testing import check_retriever

QUESTIONS = [
    "When is a CTR due?",
    "CU*BASE EOD-7 job failure",
    "who may approve a wire of more than $10,000",
    "the the member member member services",
    "31 CFR 1020.320(d)",
    "qzxv wvxzq",
]


def chunks_of(*texts: str) -> list[Chunk]:
    return [Chunk(f"{i}.md", 0, len(text), text) for i, text in enumerate(texts)]


def terms_of(text: str) -> list[str]:
    return analyze(spec.make("analyze", "english"), text)


def dense(index: Features) -> np.ndarray:
    """The index as a matrix of chunks and features."""
    matrix = np.zeros((index.chunks, len(index.grams)))
    matrix[index.docs, np.repeat(np.arange(len(index.grams)), np.diff(index.starts))] = index.weights
    return matrix


@pytest.fixture(scope="module")
def passages() -> list[Chunk]:
    layout = Layout.parse("markdown", ["headings"])
    files = sorted(EXAMPLE.glob("*/*.md"))[::5]
    documents = [Document(path.name, path.read_text(encoding="utf-8")) for path in files]
    return [chunk for document in documents for chunk in layout.cut(document, LocalServices())]


# ---------------------------------------------------------------- scikit-learn


@pytest.mark.parametrize("ngrams", [1, 2, 3])
def test_every_weight_and_score_equals_scikit_learn_on_real_text(passages: list[Chunk], ngrams: int) -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    theirs = text.TfidfVectorizer(ngram_range=(1, ngrams), tokenizer=terms_of, token_pattern=None, lowercase=False)
    matrix = theirs.fit_transform([chunk.searchable for chunk in passages])
    tfidf = TfIdf(ngrams=ngrams, features=10**7)
    index = tfidf.build(passages, LocalServices())
    assert {" ".join(gram) for gram in index.grams} == set(theirs.vocabulary_)
    columns = [theirs.vocabulary_[" ".join(gram)] for gram in index.grams]
    assert abs(matrix[:, columns].toarray() - dense(index)).max() < 1e-6
    check_scores(index, tfidf, matrix, theirs)


def test_limited_features_equal_scikit_learn_where_no_tie_is_cut(passages: list[Chunk]) -> None:
    """scikit-learn leaves it open which of equally frequent n-grams it keeps, so the limits are set between two."""
    text = pytest.importorskip("sklearn.feature_extraction.text")
    terms = [terms_of(chunk.searchable) for chunk in passages]
    grams = Counter(g for row in terms for n in (1, 2) for g in zip(*(row[i:] for i in range(n)), strict=False))
    for least in (3, 10, 60):
        limit = sum(count >= least for count in grams.values())
        theirs = text.TfidfVectorizer(
            ngram_range=(1, 2), max_features=limit, tokenizer=terms_of, token_pattern=None, lowercase=False
        )
        matrix = theirs.fit_transform([chunk.searchable for chunk in passages])
        tfidf = TfIdf(features=limit)
        index = tfidf.build(passages, LocalServices())
        assert len(index.grams) == limit
        assert {" ".join(gram) for gram in index.grams} == set(theirs.vocabulary_)
        check_scores(index, tfidf, matrix, theirs)


def check_scores(index: Features, tfidf: TfIdf, matrix: object, theirs: object) -> None:
    expected = (theirs.transform(QUESTIONS) @ matrix.T).toarray()
    found = index.search(tfidf, [Query(question) for question in QUESTIONS], index.chunks, EVERY)
    for i in range(len(QUESTIONS)):
        ordinals, scores = found.row(i)
        assert len(ordinals) == np.count_nonzero(expected[i])
        assert scores == pytest.approx(expected[i][ordinals], abs=1e-5)


# ---------------------------------------------------------------- written out


def test_scores_of_a_tiny_corpus_written_out() -> None:
    """3 chunks; `cash` is in two of them, `box` and `cash box` in one. The query's `the` is no feature."""
    index = TfIdf(analyzer="plain").build(chunks_of("cash box", "cash cash card", "wire"), LocalServices())
    ordinals, scores = index.search(TfIdf(), [Query("the cash box")], 5, EVERY).row(0)
    cash, rare = log(4 / 3) + 1, log(4 / 2) + 1
    query = sqrt(cash**2 + rare**2 + rare**2)
    second = sqrt((2 * cash) ** 2 + rare**2 + rare**2 + rare**2)  # cash twice, card, cash cash, cash card
    assert ordinals.tolist() == [0, 1]
    assert scores.tolist() == pytest.approx([1.0, 2 * cash * cash / (query * second)], abs=1e-6)


def test_most_frequent_grams_are_kept_then_the_shorter_then_the_alphabet() -> None:
    """a: 3, b: 2, a b: 2, c: 1, d: 1, b a, b d, c a: 1."""
    chunks = chunks_of("a b a b", "c a", "d")

    def kept(features: int) -> list[str]:
        return [
            " ".join(gram) for gram in TfIdf(features=features, analyzer="plain").build(chunks, LocalServices()).grams
        ]

    assert kept(1) == ["a"]
    assert kept(2) == ["a", "b"]
    assert kept(3) == ["a", "b", "a b"]
    assert kept(4) == ["a", "b", "c", "a b"]
    assert kept(6) == ["a", "b", "c", "d", "a b", "b a"]
    assert kept(100) == ["a", "b", "c", "d", "a b", "b a", "c a"]


def test_grams_do_not_cross_the_end_of_a_chunk() -> None:
    index = TfIdf(ngrams=3, analyzer="plain").build(chunks_of("a b", "", "c", "d e f"), LocalServices())
    assert {g for g in index.grams if len(g) > 1} == {("a", "b"), ("d", "e"), ("e", "f"), ("d", "e", "f")}


def test_word_that_is_no_feature_parts_its_neighbours() -> None:
    index = TfIdf(analyzer="plain").build(chunks_of("cash box", "cash", "box"), LocalServices())
    near, far = (index.search(TfIdf(), [Query(q)], 1, EVERY).scores[0, 0] for q in ("cash box", "cash new box"))
    assert near == pytest.approx(1.0)
    assert far < 0.9


def test_equal_chunks_stand_in_order_of_ordinal() -> None:
    index = TfIdf().build(chunks_of(*["cash report"] * 300), LocalServices())
    assert index.search(TfIdf(), [Query("cash")], 5, EVERY).ids.tolist() == [[0, 1, 2, 3, 4]]


def test_mask_decides_before_the_best_are_taken(passages: list[Chunk]) -> None:
    index = TfIdf().build(passages, LocalServices())
    queries = [Query(question) for question in QUESTIONS]
    every = index.search(TfIdf(), queries, len(passages), EVERY)
    allow = np.random.default_rng(1).random(len(passages)) < 0.1
    found = index.search(TfIdf(), queries, 7, Mask(allow))
    for i in range(len(queries)):
        ordinals, scores = every.row(i)
        assert found.row(i)[0].tolist() == ordinals[allow[ordinals]][:7].tolist()
        assert found.row(i)[1].tolist() == scores[allow[ordinals]][:7].tolist()


def test_given_chunks_are_scored_as_search_scores_them(passages: list[Chunk]) -> None:
    index = TfIdf().build(passages, LocalServices())
    queries = [Query(question) for question in QUESTIONS]
    found = index.search(TfIdf(), queries, 40, EVERY)
    assert np.array_equal(index.score(TfIdf(), queries, found.ids, EVERY), found.scores)
    every = index.search(TfIdf(), queries[:1], len(passages), EVERY).row(0)[0].tolist()
    other = next(i for i in range(len(passages)) if i not in every)
    assert index.score(TfIdf(), queries[:1], np.array([[other, -1]], np.int32), EVERY).tolist() == [[0, -np.inf]]


@each("text", ["tfidf(ngrams=1)", "tfidf(ngrams=4, features=200, analyzer=plain)"])
def test_variant_keeps_the_contract_of_a_retriever(text: str, passages: list[Chunk], tmp_path: Path) -> None:
    queries = [Query("member"), Query("a wire of the member"), Query("CTR")]
    check_retriever(spec.make("retrieve", text), passages[:60], queries, LocalServices(), tmp_path)


def test_index_is_named_by_all_its_parameters() -> None:
    variants = [TfIdf(), TfIdf(ngrams=1), TfIdf(features=10), TfIdf(analyzer="plain")]
    assert len({variant.index_spec(LocalServices()) for variant in variants}) == 4


@each("text", ["tfidf(ngrams=0)", "tfidf(features=0)", "tfidf(analyzer=german)"])
def test_wrong_parameter_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        spec.make("retrieve", text)


texts_of_few_words = st.lists(st.lists(st.sampled_from("cash card wire hold the a".split()), max_size=6), max_size=12)


@given(texts_of_few_words, st.integers(1, 4), st.integers(1, 12))
def test_features_are_those_of_a_plain_count(texts: list[list[str]], ngrams: int, limit: int) -> None:
    """Leaving out early what cannot be chosen leaves out nothing that would be."""
    tfidf = TfIdf(ngrams, limit, "plain")
    index = tfidf.build(chunks_of(*map(" ".join, texts)), LocalServices())
    counts = Counter(
        tuple(words[i : i + n]) for words in texts for n in range(1, ngrams + 1) for i in range(len(words) - n + 1)
    )
    best = sorted(counts, key=lambda gram: (-counts[gram], len(gram), gram))[:limit]
    assert index.grams == sorted(best, key=lambda gram: (len(gram), gram))
    tfs = Counter((d, gram) for d, words in enumerate(texts) for gram in index.grams for _ in range(times(gram, words)))
    found = {(int(d), g) for g, gram in enumerate(index.grams) for d in index.docs[slice(*index.starts[g : g + 2])]}
    assert found == {(d, index.grams.index(gram)) for d, gram in tfs}


def times(gram: tuple[str, ...], words: list[str]) -> int:
    return sum(tuple(words[i : i + len(gram)]) == gram for i in range(len(words)))


@given(texts_of_few_words, st.randoms())
def test_index_built_beside_an_earlier_one_is_the_same_index_and_reads_only_what_is_new(
    before: list, random: object
) -> None:
    old = chunks_of(*map(" ".join, before))
    pairs = [(i, chunk) for i, chunk in enumerate(old) if random.random() < 0.6]
    for chunk in chunks_of("wire hold", "new words"):
        pairs.insert(random.randint(0, len(pairs)), (-1, chunk))
    new = [chunk for _, chunk in pairs]
    tfidf = TfIdf(features=8)
    earlier = tfidf.build(old, LocalServices())
    # What is taken over is not read: its text could be anything.
    unread = [chunk if i < 0 else replace(chunk, text="unread") for i, chunk in pairs]
    grown = tfidf.build(unread, LocalServices(), Reuse(earlier, np.array([i for i, _ in pairs], dtype=np.int32)))
    fresh = tfidf.build(new, LocalServices())
    assert grown.grams == fresh.grams
    assert grown.words.vocabulary == fresh.words.vocabulary
    for name in ("starts", "docs", "weights"):
        assert np.array_equal(getattr(grown, name), getattr(fresh, name)), name
    for name in ("terms", "sizes"):
        assert np.array_equal(getattr(grown.words, name), getattr(fresh.words, name)), name
