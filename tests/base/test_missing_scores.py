"""`missing=score`: every candidate is scored by every retriever, and exactly as its own search would."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers import Home, ask
from llm_server import LLMServer
from surefind import Access, Pipeline, Query
from surefind.base import spec
from surefind.base.errors import SpecError
from surefind.base.protocols import Retriever
from surefind.base.types import PAD, Rankings
from surefind.engine.search import pipeline
from surefind.engine.search.pipeline import score_missing
from surefind.engine.store.backend import View

SETTINGS = '[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n'
TEXTS = ["cash card wire", "cash cash hold", "wire hold branch", "card branch teller", "vault key", "cash wire vault"]
OWNER = Access.owner()
QUERIES = [Query("cash wire"), Query("branch"), Query("nothing known")]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path, SETTINGS)
    for i, text in enumerate(TEXTS):
        home.write(f"docs/{i}.md", text)
    home.sync("docs")
    return home


def ready(home: Home, *texts: str) -> tuple[View, list[Retriever]]:
    kb = home.open()
    retrievers = [spec.make("retrieve", text) for text in texts]
    kb.build_for(retrievers)
    return kb.reader().view, retrievers


@pytest.mark.parametrize("text", ["bm25", "bm25(k1=0.0, b=0.0)", "bm25(k1=3.0, b=1.0)", "dense"])
def test_a_passage_is_scored_as_its_own_search_scores_it(home: Home, text: str) -> None:
    view, (retriever,) = ready(home, text)
    found = view.search(retriever, QUERIES, len(TEXTS), OWNER)
    scores = view.score(retriever, QUERIES, found.ids, OWNER)
    np.testing.assert_allclose(scores, found.scores, rtol=1e-4, atol=1e-4)


def test_a_passage_without_the_words_scores_nothing(home: Home) -> None:
    view, (retriever,) = ready(home, "bm25")
    last = next(key for key in view.spans().ids.tolist() if view.spans().document(key) == "4.md")
    scores = view.score(retriever, QUERIES[1:2], np.array([[last, -1]]), OWNER)
    assert scores[0, 0] == 0
    assert np.isneginf(scores[0, 1])


def test_completed_rankings_hold_the_union(home: Home) -> None:
    view, retrievers = ready(home, "bm25", "bm25(k1=0.0)")
    short = [view.search(retriever, QUERIES, 1 + i, OWNER) for i, retriever in enumerate(retrievers)]
    whole = score_missing(short, QUERIES, retrievers, view, OWNER)
    for q in range(len(QUERIES)):
        union = set(short[0].row(q)[0].tolist()) | set(short[1].row(q)[0].tolist())
        for ranking in whole:
            ordinals, scores = ranking.row(q)
            assert set(ordinals.tolist()) == union
            assert list(scores) == sorted(scores, reverse=True)


def test_missing_score_changes_what_convex_gives_a_passage_that_one_ranking_lacks(home: Home) -> None:
    kb = home.open()

    def ranked(fuse: str) -> list[tuple[str, float]]:
        pipeline = Pipeline.parse(f"bm25 + dense @1 >> {fuse}")
        return [(hit.document, hit.score) for hit in ask(kb, "cash wire vault hold", k=5, pipeline=pipeline).hits]

    plain, scored = ranked("convex(alpha=0.5)"), ranked("convex(alpha=0.5, missing=score)")
    assert {name for name, _ in plain} == {name for name, _ in scored}


def test_a_retriever_that_cannot_score_is_named(home: Home, llm: LLMServer) -> None:
    home.configure(f'{SETTINGS}\n[llm]\nmodel = "{llm.url}#toy"\n')
    view, (retriever,) = ready(home, "multi_query(retriever=bm25)")
    with pytest.raises(SpecError, match="cannot score single passages"):
        view.score(retriever, QUERIES[:1], view.spans().ids[None, :1], OWNER)


def test_the_spec_shows_missing_only_where_it_is_set() -> None:
    assert str(spec.make("fuse", "convex(alpha=0.3)")) == "convex(alpha=0.3)"
    assert str(spec.make("fuse", "tm2c2(alpha=0.3, missing=score)")) == "tm2c2(alpha=0.3, missing=score)"


def test_missing_candidates_are_those_of_the_other_rankings_in_order() -> None:
    def ranking(*rows: list[int]) -> Rankings:
        ids = np.array(rows, np.int64)
        return Rankings(ids, np.zeros(ids.shape, np.float32), "", "sparse")

    first, second = ranking([5, 3], [7, PAD]), ranking([9, 3, 1], [PAD, PAD, PAD])
    lacking = [table.tolist() for table in pipeline._missing([first, second, ranking([], [])])]
    assert lacking == [[[1, 9], [PAD, PAD]], [[5], [7]], [[1, 3, 5, 9], [7, PAD, PAD, PAD]]]
