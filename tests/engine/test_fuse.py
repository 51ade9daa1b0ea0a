"""Fusion against arithmetic that is written out."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cases import each
from surefind.base import spec
from surefind.base.errors import SpecError
from surefind.base.types import Rankings
from surefind.engine.fuse.convex import Convex
from surefind.engine.fuse.rrf import RRF
from surefind.testing import Row, check_fuser, check_rankings, rankings_of


def fused(fuser: RRF | Convex, *rankings: Rankings, k: int = 10) -> dict[int, float]:
    ordinals, scores = fuser.fuse(rankings, k).row(0)
    return dict(zip(ordinals.tolist(), scores.tolist(), strict=True))


def dense(*rows: Row) -> Rankings:
    return rankings_of(rows, "dense", "dense", -1.0)


ALONE = [name for name in spec.names("fuse") if name not in ("learned", "llm_weights")]
"""Fusers that need nothing but rankings; the others look at the queries."""

LEXICAL = rankings_of([([7, 3, 5], [9.0, 6.0, 3.0])])
MEANING = dense(([5, 9, 7], [0.9, 0.5, 0.4]))


def test_rrf_written_out() -> None:
    assert fused(RRF(), LEXICAL, MEANING) == pytest.approx(
        {
            7: 1 / (60 + 1) + 1 / (60 + 3),
            5: 1 / (60 + 3) + 1 / (60 + 1),
            3: 1 / (60 + 2),
            9: 1 / (60 + 2),
        }
    )


def test_rrf_with_weights_written_out() -> None:
    assert fused(RRF(k=10, weights=(2, 0.5)), LEXICAL, MEANING) == pytest.approx(
        {
            7: 2 / (10 + 1) + 0.5 / (10 + 3),
            3: 2 / (10 + 2),
            5: 2 / (10 + 3) + 0.5 / (10 + 1),
            9: 0.5 / (10 + 2),
        }
    )


def test_rrf_puts_ties_in_order_of_ordinal() -> None:
    assert list(fused(RRF(), LEXICAL, MEANING)) == [5, 7, 3, 9]


def test_convex_written_out() -> None:
    assert fused(Convex(alpha=0.3), LEXICAL, MEANING) == pytest.approx(
        {
            7: 0.3 * 0 + 0.7 * 1,
            5: 0.3 * 1 + 0.7 * 0,
            3: 0.7 * (6 - 3) / (9 - 3),
            9: 0.3 * (0.5 - 0.4) / (0.9 - 0.4),
        }
    )


def test_dbsn_written_out() -> None:
    spread = {"lexical": 6**0.5, "meaning": (14 / 300) ** 0.5}  # of 9, 6, 3 and of 0.9, 0.5, 0.4
    assert fused(spec.make("fuse", "dbsn"), LEXICAL, MEANING) == pytest.approx(
        {
            7: (9 - 3) / spread["lexical"] + 0,
            5: 0 + (0.9 - 0.4) / spread["meaning"],
            3: (6 - 3) / spread["lexical"],
            9: (0.5 - 0.4) / spread["meaning"],
        }
    )


def test_dbsn_counts_a_row_of_equal_scores_as_found() -> None:
    found = fused(spec.make("fuse", "dbsn"), rankings_of([([1, 2], [4.0, 4.0])]), dense(([2], [0.1])))
    assert found == pytest.approx({2: 1 + 1, 1: 1})


def test_convex_finds_the_dense_ranking_wherever_it_stands() -> None:
    assert fused(Convex(0.3), MEANING, LEXICAL) == fused(Convex(0.3), LEXICAL, MEANING)


def test_convex_takes_a_row_of_equal_scores_as_all_best() -> None:
    found = fused(Convex(0.5), rankings_of([([1, 2], [4.0, 4.0])]), dense(([2], [0.1])))
    assert found == pytest.approx({2: 0.5 * 1 + 0.5 * 1, 1: 0.5 * 1})


def test_convex_with_two_lexical_rankings_is_refused() -> None:
    with pytest.raises(SpecError, match=r"needs one dense and one other ranking, got: bm25, bm25\. Fuse these"):
        Convex().fuse([LEXICAL, LEXICAL], 10)


def test_rrf_with_too_few_weights_names_the_rankings() -> None:
    with pytest.raises(SpecError, match=r"has 1 weights for 2 rankings \(bm25, dense\)"):
        RRF(weights=(1.0,)).fuse([LEXICAL, MEANING], 10)


def test_rrf_takes_any_number_of_rankings() -> None:
    found = fused(RRF(), LEXICAL, MEANING, LEXICAL)
    assert found[7] == pytest.approx(1 / 61 + 1 / 63 + 1 / 61)


def test_fusion_leaves_its_input_alone() -> None:
    before = LEXICAL.ids.copy(), LEXICAL.scores.copy()
    RRF().fuse([LEXICAL, MEANING], 1)
    assert np.array_equal(before[0], LEXICAL.ids)
    assert np.array_equal(before[1], LEXICAL.scores)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """A row as a retriever gives it: different ordinals, scores sorted, ties in order of ordinal."""
    ordinals = draw(st.lists(st.integers(0, 12), unique=True, max_size=8))
    score = st.floats(-1e3, 1e3, width=32) | st.sampled_from([0.0, 1.0, -1.0])
    scored = sorted(((draw(score), ordinal) for ordinal in ordinals), key=lambda pair: (-pair[0], pair[1]))
    return [ordinal for _, ordinal in scored], [score for score, _ in scored]


@pytest.mark.parametrize("name", ALONE)
@given(batch=st.lists(st.tuples(rows(), rows()), min_size=1, max_size=4))
@example(batch=[(([], []), ([1, 0, 2], [2.0**-52, 0.0, -1.0]))])
@example(batch=[(([], []), ([1, 2, 0], [1.0, 1e-9, 0.0]))])
def test_fuser_keeps_the_contract_on_any_rankings(name: str, batch: list[tuple[Row, Row]]) -> None:
    check_fuser(spec.make("fuse", name), batch, k=20)


@pytest.mark.parametrize("name", ALONE)
@given(row=st.tuples(rows(), rows()))
def test_fuser_keeps_every_candidate_if_k_allows(name: str, row: tuple[Row, Row]) -> None:
    fuser = spec.make("fuse", name)
    found = fuser.fuse([rankings_of([row[0]]), dense(row[1])], 100)
    assert set(found.row(0)[0].tolist()) == {*row[0][0], *row[1][0]}


def test_equal_sums_of_three_rankings_stand_in_order_of_ordinal() -> None:
    """Chunk 0 has ranks 2, 1, 7 and chunk 1 has ranks 1, 7, 2: the same sum, added up in another order."""
    others = iter(range(10, 99))

    def ranking(at: dict[int, int]) -> Rankings:
        ordinals = [at.get(rank, next(others)) for rank in range(1, 8)]
        return rankings_of([(ordinals, [float(9 - i) for i in range(7)])])

    rankings = [ranking({2: 0, 1: 1}), ranking({1: 0, 7: 1}), ranking({7: 0, 2: 1})]
    found = RRF().fuse(rankings, 50)
    check_rankings(found, 1, 50, 100)
    assert found.row(0)[0].tolist()[:2] == [0, 1]


# ---------------------------------------------------------------- tm2c2 and weighted, written out

SPARSE = Rankings(np.array([[0, 1]], np.int32), np.array([[8.0, 2.0]], np.float32), "bm25", "sparse", 0.0)
DENSE = Rankings(np.array([[1, 2]], np.int32), np.array([[0.6, 0.2]]), "dense", "dense", -1.0)


def scores_of(fused: Rankings) -> dict[int, float]:
    ordinals, scores = fused.row(0)
    return dict(zip(ordinals.tolist(), scores.tolist(), strict=True))


def test_tm2c2_scales_from_the_theoretical_minimum() -> None:
    fused = spec.make("fuse", "tm2c2(alpha=0.4)").fuse([SPARSE, DENSE], 10)
    assert scores_of(fused) == pytest.approx(
        {0: 0.6 * 8 / 8, 1: 0.6 * 2 / 8 + 0.4 * (0.6 + 1) / (0.6 + 1), 2: 0.4 * (0.2 + 1) / (0.6 + 1)}
    )


@given(sparse=rows(), near=rows(), alpha=st.floats(0, 1))
def test_tm2c2_equals_a_straightforward_one_to_1e_9(sparse: Row, near: Row, alpha: float) -> None:
    sides = [
        (1 - alpha, 0.0, (sparse[0], [abs(s) / 7 for s in sparse[1]])),
        (alpha, -1.0, (near[0], [s / 1e3 / 3 for s in near[1]])),
    ]
    expected: dict[int, float] = {}
    for weight, floor, (ordinals, scores) in sides:
        for ordinal, score in zip(ordinals, scores, strict=True):
            scaled = (score - floor) / (max(scores) - floor) if max(scores) > floor else 0.0
            expected[ordinal] = expected.get(ordinal, 0.0) + weight * scaled
    rankings = [rankings_of([sides[0][2]], "bm25", "sparse", 0.0), dense(sides[1][2])]
    found = scores_of(spec.make("fuse", f"tm2c2(alpha={alpha!r})").fuse(rankings, 50))
    assert found == pytest.approx(expected, abs=1e-9, rel=0)


def test_weighted_divides_by_the_sum_of_the_weights() -> None:
    fused = spec.make("fuse", "weighted(weights=[3, 1])").fuse([SPARSE, DENSE], 10)
    assert scores_of(fused) == pytest.approx({0: 3 / 4 * 1, 1: 3 / 4 * 0 + 1 / 4 * 1, 2: 1 / 4 * 0})


def test_weighted_can_scale_from_the_floor() -> None:
    fused = spec.make("fuse", "weighted(weights=[1, 1], norm=floor)").fuse([SPARSE, DENSE], 10)
    assert scores_of(fused) == pytest.approx({0: 0.5, 1: 0.5 * 2 / 8 + 0.5, 2: 0.5 * 1.2 / 1.6})


def test_tm2c2_with_alpha_0_orders_as_the_sparse_ranking_does() -> None:
    assert list(scores_of(spec.make("fuse", "tm2c2(alpha=0)").fuse([SPARSE, DENSE], 2))) == [0, 1]


WALKS = rankings_of([([9, 3], [0.4, 0.1])], "ppr", "graph", 0.0)


@each("text", ["bm25=0.2, dense=0.3, graph=0.5", "graph=5, sparse=2, dense=3", "ppr=5, bm25=2, dense=3"])
def test_weights_by_name_are_those_of_the_retriever_or_its_kind(text: str) -> None:
    lexical = rankings_of([([7, 3, 5], [9.0, 6.0, 3.0])], "bm25", "sparse", 0.0)
    named, listed = (spec.make("fuse", f"weighted({inside})") for inside in (text, "weights=[2, 3, 5]"))
    assert fused(named, lexical, MEANING, WALKS) == pytest.approx(fused(listed, lexical, MEANING, WALKS))
    assert spec.make("fuse", str(named)) == named == named.replace()


@each(
    ("text", "says"),
    [
        ("bm25=1, dense=1", "has no weight for ppr. Give one to each of: bm25, dense, ppr."),
        ("bm25=1, dense=1, graph=1, tfidf=1", "has a weight for tfidf, but the rankings are: bm25, dense, ppr."),
        ("bm25=1, dense=1, graph=1, by_name=1", "has a weight for by_name, but the rankings are: bm25, dense, ppr."),
    ],
)
def test_weights_by_name_must_fit_the_rankings(text: str, says: str) -> None:
    lexical = rankings_of([([7], [9.0])], "bm25", "sparse", 0.0)
    with pytest.raises(SpecError, match=re.escape(says)):
        spec.make("fuse", f"weighted({text})").fuse([lexical, MEANING, WALKS], 10)


def test_one_name_for_two_rankings_is_refused() -> None:
    with pytest.raises(SpecError, match="several rankings"):
        spec.make("fuse", "weighted(dense=1)").fuse([MEANING, MEANING], 10)


def test_another_fusion_at_any_moment_changes_nothing() -> None:
    """The last alignment is kept between calls, and a server fuses in several threads: none may get another's."""
    mine, other = [LEXICAL, MEANING], [rankings_of([([1, 2], [2.0, 1.0])]), dense(([2], [0.5]))]
    wanted = RRF().fuse(mine, 10).ids.tolist()
    inside = False

    def at_every_line(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal inside
        if frame.f_code.co_name == "_aligned" and not inside:
            inside = True
            RRF().fuse(other, 10)
            inside = False
        return at_every_line

    before = sys.gettrace()
    sys.settrace(at_every_line)
    try:
        found = RRF().fuse(mine, 10).ids.tolist(), RRF().fuse(mine, 10).ids.tolist()
    finally:
        sys.settrace(before)
    assert found == (wanted, wanted)
