"""`sparse`: half BM25, half TF-IDF, each by its highest score."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cases import each
from helpers import EXAMPLE, Home
from surefind.base import spec
from surefind.base.errors import SpecError
from surefind.base.types import EVERY, Chunk, Document, Query, Rankings
from surefind.engine.retrieve._tfidf import SparseIndex
from surefind.engine.retrieve.bm25 import BM25
from surefind.engine.retrieve.sparse import Sparse
from surefind.engine.retrieve.tfidf import TfIdf
from surefind.engine.services import LocalServices
from surefind.engine.write.layout import Layout
from surefind.testing import check_retriever

QUERIES = [
    Query("When is a CTR due?"),
    Query("CU*BASE EOD-7 job failure"),
    Query("the the member member member"),
    Query("qzxv wvxzq"),
]


@pytest.fixture(scope="module")
def passages() -> list[Chunk]:
    layout = Layout.parse("markdown", ["headings"])
    files = sorted(EXAMPLE.glob("*/*.md"))[::6]
    documents = [Document(path.name, path.read_text(encoding="utf-8")) for path in files]
    return [chunk for document in documents for chunk in layout.cut(document, LocalServices())]


@pytest.fixture(scope="module")
def index(passages: list[Chunk]) -> SparseIndex:
    return Sparse().build(passages, LocalServices())


def scaled(rankings: Rankings, i: int, n: int) -> np.ndarray:
    """The scores of all chunks, the highest 1."""
    scores = np.zeros(n)
    ordinals, found = rankings.row(i)
    scores[ordinals] = found
    return scores / max(scores.max(initial=0), 1e-30)


@each(("weight", "k1", "b"), [(0.5, 1.5, 0.75), (0.8, 0.9, 0.4), (0.0, 1.5, 0.75), (1.0, 2.0, 0.0)])
def test_score_is_the_mean_of_the_two_by_their_highest(
    passages: list[Chunk], index: SparseIndex, weight: float, k1: float, b: float
) -> None:
    """One index serves every weight, k1 and b."""
    n = len(passages)
    bm25, tfidf = BM25(k1, b), TfIdf()
    words = bm25.build(passages, LocalServices()).search(bm25, QUERIES, n, EVERY)
    grams = tfidf.build(passages, LocalServices()).search(tfidf, QUERIES, n, EVERY)
    found = index.search(Sparse(weight, k1, b), QUERIES, n, EVERY)
    for i in range(len(QUERIES)):
        expected = weight * scaled(words, i, n) + (1 - weight) * scaled(grams, i, n)
        ordinals, scores = found.row(i)
        assert len(ordinals) == np.count_nonzero(expected)
        assert scores == pytest.approx(expected[ordinals], abs=1e-5)


def test_scores_of_a_tiny_corpus_written_out() -> None:
    """Three chunks, each equally long: `cash` twice, once and never."""
    texts = "cash cash", "cash box", "wire sent"
    chunks = [Chunk(f"{i}.md", 0, len(text), text) for i, text in enumerate(texts)]
    retriever = Sparse(analyzer="plain")
    ordinals, scores = retriever.build(chunks, LocalServices()).search(retriever, [Query("cash")], 5, EVERY).row(0)
    cash, rare = np.log(4 / 3) + 1, np.log(4 / 2) + 1
    cosines = 2 * cash / np.hypot(2 * cash, rare), cash / np.sqrt(cash**2 + 2 * rare**2)  # with cash cash, cash box
    gains = 2 * 2.5 / (2 + 1.5), 1 * 2.5 / (1 + 1.5)
    assert ordinals.tolist() == [0, 1]
    assert scores.tolist() == pytest.approx([1.0, 0.5 * gains[1] / gains[0] + 0.5 * cosines[1] / cosines[0]], abs=1e-6)


def test_given_chunks_are_scored_as_search_scores_them(index: SparseIndex) -> None:
    retriever = Sparse(weight=0.3, k1=0.9)
    found = index.search(retriever, QUERIES, 40, EVERY)
    assert np.array_equal(index.score(retriever, QUERIES, found.ids, EVERY), found.scores)


def test_worst_of_chunks_that_all_match_is_found_all_the_same() -> None:
    chunks = [Chunk(f"{i}.md", 0, len(text), text) for i, text in enumerate(("cash cash", "cash and a wire"))]
    found = Sparse().build(chunks, LocalServices()).search(Sparse(), [Query("cash")], 5, EVERY)
    assert found.ids.tolist() == [[0, 1]]
    assert found.scores[0, 1] > 0


@each("text", ["sparse(weight=0)", "sparse(weight=1, k1=0)", "sparse(ngrams=1, features=5)"])
def test_variant_keeps_the_contract_of_a_retriever(text: str, passages: list[Chunk], tmp_path: Path) -> None:
    queries = [Query("member"), Query("a wire of the member"), Query("CTR")]
    check_retriever(spec.make("retrieve", text), passages[:60], queries, LocalServices(), tmp_path)


def test_retrievers_that_differ_in_search_time_parameters_share_an_index() -> None:
    assert Sparse(weight=0.1, k1=0.5, b=0).index_spec(LocalServices()) == Sparse().index_spec(LocalServices())
    other = [Sparse(ngrams=1), Sparse(features=10), Sparse(analyzer="plain"), Sparse(), BM25(), TfIdf()]
    assert len({retriever.index_spec(LocalServices()) for retriever in other}) == 6


@each("text", ["sparse(weight=1.5)", "sparse(b=2)", "sparse(ngrams=0)", "sparse(analyzer=german)"])
def test_wrong_parameter_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        spec.make("retrieve", text)


def test_knowledge_base_stores_the_index_and_grows_it(home: Home) -> None:
    home.configure('[search]\npipeline = "words"\n\n[pipelines.words]\nretrieve = ["sparse"]\n')
    home.write("docs/a.md", "The teller counts the cash.")
    home.sync("docs")
    assert home.found("cash") == ["a.md"]
    home.write("docs/b.md", "Cash box, cash box.")
    home.sync("docs")
    assert home.found("cash box") == ["b.md", "a.md"]
