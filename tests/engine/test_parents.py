"""Children are searched, parents returned: each once, and as many as were asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exam_helpers import surefind
from helpers import Home, ask
from surefind import Access
from surefind.engine.search.pipeline import extend, fold, short
from surefind.testing import check_rankings, rankings_of

SETTINGS = """
[index]
chunk = "hierarchical(parent=40, child=8, overlap=2)"
enrich = []
[search]
pipeline = "words"
[pipelines.words]
retrieve = ["bm25"]
[pipelines.meaning]
retrieve = ["dense(model=toy)"]
[pipelines.shallow]
retrieve = ["bm25", "dense(model=toy)"]
fuse = "convex(alpha=0.5, missing=score)"
depth = 1
[pipelines.reranked]
retrieve = ["bm25", "dense(model=toy)"]
rerank = ["shared_words"]
depth = 1
[pipelines.failing]
retrieve = ["bm25"]
rerank = ["failing"]
depth = 1
"""
PIPELINES = ["words", "meaning", "shallow", "reranked", "failing"]

pytestmark = pytest.mark.usefixtures("toys")


def test_fold_written_out() -> None:
    families = np.array([0, 0, 1, 1, 1, 2], np.int64)
    ranking = rankings_of([([3, 2, 0, 1, 5], [9.0, 8.0, 7.0, 6.0, 5.0]), ([4], [1.0])])
    folded = fold(ranking, lambda ids: np.where(ids < 0, -1, families[ids]))
    assert folded.ids.tolist() == [[3, 0, 5], [4, -1, -1]]
    assert folded.scores.tolist() == [[9.0, 7.0, 5.0], [1.0, -np.inf, -np.inf]]


def test_short_rows_are_those_that_hold_fewer() -> None:
    assert short(rankings_of([([3, 2], [2.0, 1.0]), ([4], [1.0])]), 2).tolist() == [False, True]


def test_extended_row_keeps_its_head_and_goes_on_below() -> None:
    head, more = rankings_of([([3, 2], [0.9, 0.5]), ([7], [0.8])]), rankings_of([([7, 9, 8], [0.9, 0.6, 0.1])])
    longer = extend(head, np.array([1]), more, lambda ids: None)
    assert longer.ids.tolist() == [[3, 2, -1], [7, 9, 8]]
    assert longer.scores.tolist() == [[0.9, 0.5, -np.inf], [0.8, 0.6, 0.1]]
    steep = extend(rankings_of([([7], [0.2])]), np.array([0]), more, lambda ids: None)
    assert steep.scores.tolist() == [[0.2, 0.2, 0.1]], "a score of another look never stands above one before"


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.randoms())
def test_every_parent_stands_once_at_its_best_child(owners: list[int], chance: object) -> None:
    families = np.unique(owners, return_inverse=True)[1].astype(np.int64)
    order = list(range(len(owners)))
    chance.shuffle(order)
    ranking = rankings_of([(order, [float(-rank) for rank in range(len(order))])])
    folded = fold(ranking, lambda ids: families[ids])
    check_rankings(folded, 1, len(owners), len(owners))
    assert folded.row(0)[0].tolist() == [o for i, o in enumerate(order) if families[o] not in families[order[:i]]]


@pytest.fixture
def library(tmp_path: Path) -> Home:
    """One document whose children crowd the top ranks, others that match once, and a secret one."""
    home = Home(tmp_path, SETTINGS)
    crowd = "\n\n".join("deposit deposit deposit insurance limit" for _ in range(7))
    home.write("docs/crowd.md", crowd)
    home.write("docs/secret.md", f"---\nacl: [board]\n---\n{crowd}")
    for i in range(5):
        filler = "\n\n".join(f"paragraph {j} about other matters" for j in range(4))
        home.write(f"docs/single{i}.md", f"{filler}\n\nthe deposit in branch {i}")
    home.sync("docs")
    return home


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("k", [1, 3, 6])
def test_search_goes_on_until_k_different_parents_are_found(library: Home, pipeline: str, k: int) -> None:
    with library.open() as kb:
        hits = ask(kb, "deposit", k=k, pipeline=pipeline).hits
    assert len(hits) == k
    assert len({(hit.document, hit.start, hit.end) for hit in hits}) == k


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_hit_is_the_parent_with_its_offsets_and_the_scores_of_its_best_child(library: Home, pipeline: str) -> None:
    with library.open() as kb:
        found = ask(kb, "deposit branch 3", k=3, pipeline=pipeline)
        (hit,) = [hit for hit in found.hits if hit.document == "single3.md"]
        (document,) = [document for document in kb.documents(Access.owner()) if document.id == "single3.md"]
    assert hit.text == document.text[hit.start : hit.end] == document.text
    assert document.text[slice(*hit.matched)].endswith("the deposit in branch 3")
    assert hit.matched[0] > hit.start
    assert "parents" in hit.stages
    assert "parents" in [entry.stage for entry in found.trace]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_access_holds_for_parents(library: Home, pipeline: str) -> None:
    assert "secret.md" not in library.found("deposit insurance", k=50, pipeline=pipeline)
    assert "secret.md" in library.found("deposit insurance", k=50, pipeline=pipeline, groups=["board"])


def test_command_shows_the_part_that_matched(library: Home) -> None:
    printed = surefind("search", "deposit branch 3", "-k", "1", "-p", "words", kb=library.folder)
    assert "the deposit in branch 3" in printed.out
    assert "paragraph 0" not in printed.out
    assert (
        "paragraph 0"
        in surefind("search", "deposit branch 3", "-k", "1", "-p", "words", "--full", kb=library.folder).out
    )


def test_layout_without_parents_has_no_families(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    home.sync("docs")
    with home.open() as kb:
        view = kb.reader().view
        assert view.parents(view.spans().ids) is None
