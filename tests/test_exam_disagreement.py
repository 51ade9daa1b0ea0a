"""The disagreement of configurations on a question, by written-out arithmetic and against a plain loop."""

from __future__ import annotations

from itertools import combinations
from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefind.exam.disagreement import disagreement
from surefind.types import PAD, Rankings

lists = st.lists(st.lists(st.integers(0, 9), unique=True, max_size=8), min_size=2, max_size=5)


def rankings(*rows: list[int]) -> Rankings:
    width = max(map(len, rows))
    ids = np.array([row + [PAD] * (width - len(row)) for row in rows], dtype=np.int64).reshape(len(rows), width)
    return Rankings(ids, np.where(ids == PAD, -np.inf, 1.0))


def test_equal_lists_agree_and_disjoint_lists_disagree() -> None:
    one, other = rankings([1, 2, 3], [1, 2, 3]), rankings([1, 2, 3], [4, 5, 6])
    assert disagreement([one, other], k=3).tolist() == pytest.approx([0.0, 1.0])


def test_two_swapped_passages_by_hand() -> None:
    second = 1 / log2(3)
    wanted = 2 * (1 - second) ** 2 / (2 * (1 + second**2))
    assert disagreement([rankings([1, 2]), rankings([2, 1])], k=2).tolist() == pytest.approx([wanted])


def test_what_is_below_k_does_not_count() -> None:
    assert disagreement([rankings([1, 2, 3]), rankings([1, 2, 4])], k=2).tolist() == [0.0]


def test_one_ranking_cannot_disagree() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        disagreement([rankings([1])])


@given(lists)
def test_it_is_the_mean_over_all_pairs(found: list[list[int]]) -> None:
    k = 5
    weights = [{key: 1 / log2(rank + 2) for rank, key in enumerate(row[:k])} for row in found]
    norm = 2 * sum(1 / log2(rank + 2) ** 2 for rank in range(k))
    pairs = [sum((a.get(key, 0) - b.get(key, 0)) ** 2 for key in {*a, *b}) / norm for a, b in combinations(weights, 2)]
    (value,) = disagreement([rankings(row) for row in found], k).tolist()
    assert value == pytest.approx(sum(pairs) / len(pairs))
    assert 0 <= value <= 1 + 1e-9


def test_it_is_the_expected_squared_difference_of_dcg() -> None:
    """With every passage relevant by the same chance, independently."""
    chance, p, k = np.random.default_rng(1), 0.3, 10
    a, b = chance.permutation(15)[:k], chance.permutation(15)[:k]
    discounts = 1 / np.log2(np.arange(k) + 2)
    relevant = chance.random((200_000, 15)) < p
    squared = ((relevant[:, a] @ discounts - relevant[:, b] @ discounts) ** 2).mean()
    (value,) = disagreement([rankings(a.tolist()), rankings(b.tolist())], k).tolist()
    assert squared == pytest.approx(p * (1 - p) * value * 2 * (discounts**2).sum(), rel=0.02)
