"""LambdaMART over candidates, piece by piece: what the trees see and how they reorder; how alike two corpora are."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefind.fuse.support.features import Rarity
from surefind.fuse.support.lambdamart import REORDERED, SCALE, LambdaMART, candidate_names, candidates, corrected
from surefind.fuse.support.predictors import blend
from surefind.fuse.support.trees import Trees
from surefind.inference.provenance import alike
from surefind.protocols import SKETCH
from surefind.testing import check_rankings, rankings_of
from surefind.train.lambdamart import TREES, how_many
from surefind.types import PAD, Rankings

RARITY = Rarity({"cash": 1.0}, 3.0)


def pair() -> list[Rankings]:
    words = rankings_of([([7, 3], [4.0, 2.0])], "bm25", "sparse", 0.0)
    meaning = rankings_of([([3, 9, 7], [0.8, 0.5, 0.2])], "dense", "dense", -1.0)
    return [words, meaning]


def test_what_is_said_of_a_candidate_written_out() -> None:
    rankings = pair()
    before = blend(rankings, np.array([[0.5, 0.5]]), "minmax", 10, "x")
    # minmax: bm25 7 -> 1, 3 -> 0; dense 3 -> 1, 9 -> 0.5, 7 -> 0.  Halves: 3 and 7 have 0.5, 9 has 0.25.
    assert before.row(0)[0].tolist() == [3, 7, 9]
    rows = candidates(["cash report"], rankings, before, RARITY)
    names = candidate_names(["bm25", "dense"])
    assert rows.shape == (3, len(names))
    table = [dict(zip(names, row, strict=True)) for row in rows.tolist()]
    of_3, of_7, of_9 = table
    assert (of_3["static"], of_7["static"], of_9["static"]) == pytest.approx((0.5, 0.5, 0.25))
    assert [row["static_rank"] for row in table] == pytest.approx(np.log([1, 2, 3]))
    assert (of_7["bm25_score"], of_7["bm25_from_floor"], of_7["bm25_min_max"]) == (4.0, 1.0, 1.0)
    assert (of_3["bm25_score"], of_3["bm25_from_floor"], of_3["bm25_min_max"]) == (2.0, 0.5, 0.0)
    assert of_9["dense_from_floor"] == pytest.approx(1.5 / 1.8)
    assert of_9["dense_rank"] == pytest.approx(np.log(2))
    # 9 is not in bm25's ranking: the least score, nothing after scaling, the rank after the last.
    assert (of_9["bm25_score"], of_9["bm25_from_floor"], of_9["bm25_rank"]) == pytest.approx((2.0, 0.0, np.log(3)))
    assert {row["bm25~dense_shared_3"] for row in table} == {2.0}


def test_trees_reorder_the_head_and_leave_the_rest_below() -> None:
    scores = np.linspace(1, 0.1, 8, dtype=np.float32)[None]
    before = Rankings(np.arange(8, dtype=np.int32)[None], scores, "x", "mixed")
    gains = np.array([[0.0, 3.0, -20.0]])
    after = corrected(before, gains)
    assert after.ids[0].tolist() == [1, 0, 2, 3, 4, 5, 6, 7]
    assert after.scores[0, 0] == pytest.approx(SCALE * scores[0, 1] + 3)
    assert np.all(np.diff(after.scores[0]) <= 0)


@given(
    st.lists(st.integers(0, 12), min_size=3, max_size=3),
    st.integers(1, 9),
    st.integers(0, 2**32 - 1),
)
def test_corrected_ranking_is_a_ranking_of_the_same_chunks(sizes: list[int], width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [(rng.permutation(40)[:n].tolist(), sorted(rng.random(n).tolist(), reverse=True)) for n in sizes]
    before = rankings_of(rows)
    width = min(width, before.ids.shape[1])
    after = corrected(before, rng.normal(size=(len(rows), width)) * 10)
    for q in range(len(rows)):
        assert sorted(after.row(q)[0].tolist()) == sorted(before.row(q)[0].tolist())
        assert after.row(q)[0][width:].tolist() == before.row(q)[0][width:].tolist()
        assert np.all(np.diff(after.row(q)[1]) <= 1e-6)
        assert np.all(after.ids[q, len(after.row(q)[0]) :] == PAD)


def test_without_trees_it_is_the_static_fusion() -> None:
    rankings = pair()
    model = LambdaMART("minmax", np.array([0.3, 0.7]), RARITY, Trees.none())
    found = model.fuse(["cash"], rankings, lambda texts: np.zeros((1, 1), np.float32), 2)
    expected = blend(rankings, np.array([[0.3, 0.7]]), "minmax", 2, "x")
    assert np.array_equal(found.ids, expected.ids)
    assert np.array_equal(found.scores, expected.scores)
    check_rankings(found, 1, 2, 10)


def test_number_of_trees_is_none_unless_they_gain_more_than_the_error() -> None:
    rng = np.random.default_rng(3)
    static = rng.random(400)
    table = np.stack([static + gain for gain in (0.0, 0.01, 0.03, 0.03, -0.1)], axis=1)
    assert how_many(table) == (TREES[2], pytest.approx(0.03))
    noisy = np.stack([static, *(static + rng.choice([-0.3, 0.3], 400) for _ in TREES[1:])], axis=1)
    noisy -= np.concatenate([[0.0], noisy[:, 1:].mean(axis=0) - static.mean()])  # no gain, much noise
    assert how_many(noisy) == (0, 0.0)


def test_head_is_shorter_than_what_is_searched() -> None:
    assert REORDERED < 100


# ---------------------------------------------------------------- how alike two corpora are


def test_share_of_common_documents_written_out() -> None:
    assert alike([1, 2, 3], [2, 3, 4]) == 2 / 4
    assert alike([1, 2], [1, 2]) == 1
    assert alike([1, 2], [3]) == 0
    assert alike([], []) == 1


@pytest.mark.parametrize(("before", "shared", "after"), [(5000, 4000, 6000), (900, 800, 20_000), (3000, 0, 3000)])
def test_sketches_of_large_corpora_estimate_the_share(before: int, shared: int, after: int) -> None:
    hashes = random.Random(7).sample(range(2**48), before + after - shared)
    then, now = (sorted(part)[:SKETCH] for part in (hashes[:before], hashes[before - shared :]))
    assert alike(then, now) == pytest.approx(shared / len(hashes), abs=0.05)
