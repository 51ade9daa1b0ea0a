"""What a learned fusion looks at."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cases import each
from surefind.base.types import Rankings
from surefind.engine.fuse.support.features import SCORE_NAMES, Rarity, of_scores, of_words, rich, rich_names
from surefind.engine.fuse.support.join import from_floor
from surefind.engine.fuse.support.predictors import choose
from surefind.engine.fuse.support.trees import Trees
from surefind.lab.train.fusion import shrink
from surefind.lab.train.material import parts, simplex
from surefind.testing import FUSER_ROWS, rankings_of

RARITY = Rarity.of(["cash report", "cash count", "the CTR"])


def pair(rows: list[tuple[object, object]]) -> list[Rankings]:
    sparse, dense = [row[0] for row in rows], [row[1] for row in rows]
    return [rankings_of(sparse), rankings_of(dense, "dense", "dense", -1.0)]  # type: ignore[arg-type]


@each(
    ("text", "expected"),
    [
        ("currency transaction report", [3, 0, 0, 0]),
        ("What is form 1040?", [4, 1, 1, 0]),
        ("CTR deadline", [2, 0, 0, 1]),
        ("show whatever", [2, 0, 0, 0]),
        ("", [0, 0, 0, 0]),
    ],
)
def test_words(text: str, expected: list[float]) -> None:
    assert of_words([text]).tolist() == [expected]


def test_scores_written_out() -> None:
    sparse, dense = pair([(([7, 3, 5], [8.0, 6.0, 2.0]), ([5, 9], [0.5, 0.2]))])
    row = of_scores(["CTR"], [sparse, dense])[0]
    assert len(row) == len(SCORE_NAMES) == 25
    assert row[:4].tolist() == [1, 0, 0, 1]
    assert row[4:14] == pytest.approx([1.0, 1.2 / 1.5] + [0.0] * 8)
    assert row[14:24] == pytest.approx([1.0, 0.75, 0.25] + [0.0] * 7)
    assert row[24] == 1
    assert of_scores(["CTR"], [dense, sparse])[0].tolist() == row.tolist()


@each("number", [2, 3, 4])
def test_rich_has_a_name_for_every_column(number: int) -> None:
    rankings = [*pair(list(FUSER_ROWS)), *pair(list(FUSER_ROWS))][:number]
    table = rich(["cash"] * len(FUSER_ROWS), rankings, RARITY)
    names = rich_names([ranking.source for ranking in rankings])
    assert table.shape == (len(FUSER_ROWS), len(names))
    assert len(set(names)) == len(names)
    assert np.isfinite(table).all()


def test_rich_of_a_batch_is_that_of_each_query_alone() -> None:
    texts = [f"cash {i}" for i in range(len(FUSER_ROWS))]
    batch = rich(texts, pair(list(FUSER_ROWS)), RARITY)
    for i, row in enumerate(FUSER_ROWS):
        assert rich([texts[i]], pair([row]), RARITY)[0] == pytest.approx(batch[i])


def test_rich_sees_agreement() -> None:
    rankings = pair([(([3, 1, 2], [9.0, 4.0, 1.5]), ([2, 5, 3], [0.9, 0.8, 0.1]))])
    row = dict(zip(rich_names(["bm25", "dense"]), rich(["cash?"], rankings, RARITY)[0], strict=True))
    assert (row["bm25~dense_shared_1"], row["bm25~dense_shared_3"], row["bm25~dense_near"]) == (0, 2, 1)
    assert row["bm25_first_in_dense"] == row["dense_first_in_bm25"] == pytest.approx(np.log(3))
    assert row["bm25_gap_1_2"] == pytest.approx(5 / 9)
    assert row["question_mark"] == 1


def test_rarity_written_out_and_read_back(tmp_path: Path) -> None:
    row = RARITY.features(["cash zebra"])[0]
    common, unseen = np.log(4 / 2.5), np.log(4 / 0.5)
    spread = (unseen - common) / 2
    assert row == pytest.approx([unseen, (common + unseen) / 2, common, spread, 0.5])
    RARITY.save(tmp_path / "r.json")
    assert Rarity.load(tmp_path / "r.json") == RARITY


# ---------------------------------------------------------------- candidates and caution


def test_simplex_of_two_is_eleven_alphas() -> None:
    assert simplex(2)[:, 1].tolist() == pytest.approx([i / 10 for i in range(11)])


@each("number", [2, 3, 4])
def test_simplex_adds_up_to_one_and_holds_every_corner(number: int) -> None:
    points = simplex(number)
    assert points.sum(axis=1) == pytest.approx(np.ones(len(points)))
    assert {tuple(row) for row in np.eye(number)} <= {tuple(row) for row in points}


def test_choosing_stays_at_static_unless_enough_is_promised() -> None:
    candidates = simplex(2)
    gains = np.zeros((2, 11))
    gains[0, 9], gains[1, 9] = 0.05, 0.2
    assert choose(gains, candidates, 2, 0.0, 0.1).tolist() == [2, 9]
    assert choose(gains, candidates, 2, 0.3, 0.0).tolist() == [2, 2]


def test_shrinking_never_loses_on_what_it_was_chosen_on() -> None:
    rng = np.random.default_rng(0)
    candidates = simplex(2)
    gains = rng.normal(-0.02, 0.1, (200, 11))
    gains[:, 3] = 0
    for promised in (rng.normal(0, 0.1, gains.shape), gains, -gains):
        penalty, threshold, expected = shrink(promised, gains, candidates, 3)
        won = gains[np.arange(200), choose(promised, candidates, 3, penalty, threshold)]
        assert won.mean() == pytest.approx(expected)
        assert expected >= 0
    assert shrink(-gains, gains, candidates, 3)[1] == np.inf


def test_parts_are_70_15_15_of_every_family() -> None:
    families = ["a"] * 100 + ["b"] * 20
    train, validation, test = parts(families)
    assert sorted([*train, *validation, *test]) == list(range(120))
    assert [sum(i < 100 for i in part) for part in (train, validation, test)] == [70, 15, 15]
    assert [len(part) for part in (train, validation, test)] == [84, 18, 18]
    assert all((a == b).all() for a, b in zip(parts(families), (train, validation, test), strict=True))


def test_trees_predict_what_xgboost_predicts(tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(3)
    features = np.concatenate([rng.random((300, 4)), rng.integers(0, 3, (300, 2))], axis=1)
    target = features[:, 0] * 3 + features[:, 4] + rng.normal(0, 0.1, 300)
    booster = xgboost.train({"max_depth": 5, "nthread": 1}, xgboost.DMatrix(features, target), num_boost_round=30)
    Trees.of(booster).save(tmp_path / "trees.npz")
    found = Trees.load(tmp_path / "trees.npz").predict(features)
    assert np.abs(found - booster.inplace_predict(features)).max() < 1e-5
    assert Trees.of(booster).predict(features[:0]).shape == (0,)


@each("size", [1, 2, 3])
def test_families_too_small_to_divide_are_divided_together(size: int) -> None:
    train, validation, test = parts([f"family {i // size}" for i in range(60)])
    assert (len(train), len(validation), len(test)) == (42, 9, 9)
    assert sorted([*train, *validation, *test]) == list(range(60))


@given(st.lists(st.floats(-1, 40, width=32), max_size=14), st.sampled_from([0.0, -1.0, float("nan")]))
@example([], 0.0)
@example([2.0], 0.0)
@example([3.0, 3.0], float("nan"))
def test_shape_of_scores_written_out(scores: list[float], floor: float) -> None:
    falling = sorted(scores, reverse=True)
    ranking = rankings_of([(list(range(len(falling))), falling), ([], [])], "x", "dense", floor)
    names = rich_names(["x"])
    found, nothing = (dict(zip(names, row, strict=True)) for row in rich(["a", "a"], [ranking], Rarity({}, 1.0)))
    assert not any(value for name, value in nothing.items() if name.startswith("x_"))
    if not falling:
        return
    head = (from_floor(ranking)[0, :10].tolist() + [0.0] * 10)[:10]
    count = min(10, len(falling))
    mean = sum(head) / count
    shares = [value / sum(head) for value in head if value > 0]
    logs = [math.log(rank) for rank in range(1, 11)]
    middle = sum(logs) / 10
    assert found["x_best"] == falling[0]
    assert found["x_mean"] == pytest.approx(mean)
    assert found["x_std"] == pytest.approx(math.sqrt(sum((v - mean) ** 2 for v in head[:count]) / count), abs=1e-7)
    assert found["x_gap_1_2"] == pytest.approx(head[0] - head[1])
    assert found["x_gap_1_10"] == pytest.approx(head[0] - head[9])
    assert found["x_entropy"] == pytest.approx(-sum(share * math.log(share) for share in shares), abs=1e-7)
    slope = sum((log - middle) * value for log, value in zip(logs, head, strict=True))
    assert found["x_slope"] == pytest.approx(slope / sum((log - middle) ** 2 for log in logs), abs=1e-9)
    assert found["x_found"] == pytest.approx(math.log(1 + len(falling)))
