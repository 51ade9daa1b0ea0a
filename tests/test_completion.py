"""`missing=score`: every candidate is scored by every retriever, and exactly as its own search would."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers import Home, ask
from surefind import Pipeline, Query, spec
from surefind.errors import SpecError
from surefind.protocols import Index, Retriever
from surefind.search.completion import complete
from surefind.types import EVERY

SETTINGS = '[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n'
TEXTS = ["cash card wire", "cash cash hold", "wire hold branch", "card branch teller", "vault key", "cash wire vault"]
QUERIES = [Query("cash wire"), Query("branch"), Query("nothing known")]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path, SETTINGS)
    for i, text in enumerate(TEXTS):
        home.write(f"docs/{i}.md", text)
    home.sync("docs")
    return home


def ready(home: Home, *texts: str) -> list[tuple[Retriever, Index]]:
    kb = home.open()
    retrievers = [spec.make("retrieve", text) for text in texts]
    return [(retriever, kb.index(retriever, kb.snapshot())) for retriever in retrievers]


@pytest.mark.parametrize("text", ["bm25", "bm25(k1=0.0, b=0.0)", "bm25(k1=3.0, b=1.0)", "dense"])
def test_a_passage_is_scored_as_its_own_search_scores_it(home: Home, text: str) -> None:
    ((retriever, index),) = ready(home, text)
    found = index.search(retriever, QUERIES, len(TEXTS), EVERY)
    scores = index.score(retriever, QUERIES, found.ids, EVERY)  # type: ignore[attr-defined]
    np.testing.assert_allclose(scores, found.scores, rtol=1e-4, atol=1e-4)


def test_a_passage_without_the_words_scores_nothing(home: Home) -> None:
    ((retriever, index),) = ready(home, "bm25")
    scores = index.score(retriever, QUERIES[1:2], np.array([[4, -1]], np.int32), EVERY)  # type: ignore[attr-defined]
    assert scores[0, 0] == 0
    assert np.isneginf(scores[0, 1])


def test_completed_rankings_hold_the_union(home: Home) -> None:
    pairs = ready(home, "bm25", "bm25(k1=0.0)")
    short = [index.search(retriever, QUERIES, 1 + i, EVERY) for i, (retriever, index) in enumerate(pairs)]
    whole = complete(short, QUERIES, pairs)
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


def test_a_retriever_that_cannot_score_is_named(home: Home) -> None:
    class Mute:
        pass

    ((retriever, index),) = ready(home, "bm25")
    found = index.search(retriever, QUERIES[:1], 1, EVERY)
    other = index.search(retriever, QUERIES[1:2], 1, EVERY)
    with pytest.raises(SpecError, match="cannot score single passages"):
        complete([found, other], QUERIES[:1], [(retriever, Mute()), (retriever, index)])  # type: ignore[list-item]


def test_the_spec_shows_missing_only_where_it_is_set() -> None:
    assert str(spec.make("fuse", "convex(alpha=0.3)")) == "convex(alpha=0.3)"
    assert str(spec.make("fuse", "tm2c2(alpha=0.3, missing=score)")) == "tm2c2(alpha=0.3, missing=score)"
