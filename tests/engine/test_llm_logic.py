"""What the LLM steps do with an answer, whatever it is: orders, windows, breaking points, weights."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from surefind.engine.chunk.llm_segments import chunk_range, read_breakpoints
from surefind.engine.fuse.llm_weights import check_weights, distributions, labels, rule_weights
from surefind.engine.llm.listwise import agreement, chance_of_overlap, clip, merge, overlap, position_bias, read_order
from surefind.engine.rerank.slidegar import Slide, calls
from surefind.testing import rankings_of

# ---------------------------------------------------------------- orders


@each(
    ("reply", "order", "repaired"),
    [
        ('{"ranking": [2, 3, 1]}', [1, 2, 0], []),
        ("[2, 3, 1]", [1, 2, 0], []),
        ("Passage [1] is off topic.\n```json\n[3,2,1]\n```", [2, 1, 0], []),
        ("[3] > [1] > [2]", [2, 0, 1], []),
        ("[2, 3]", [1, 2, 0], ["1 missing numbers appended"]),
        ("[2, 2, 3, 1]", [1, 2, 0], ["1 repeated numbers dropped"]),
        ("[2, 9, 3, 0, 1]", [1, 2, 0], ["2 numbers out of range dropped"]),
        ('{"ranking": ["2", "3", "1"]}', [1, 2, 0], []),
        ('{"ranking": [2, 3, 1]} More? [1, 3] are close.', [1, 2, 0], []),
        ('<think>[1] > [2], or [1, 2, 3]</think>{"ranking": [2, 3, 1]}', [1, 2, 0], []),
        ("<think>maybe [3, 2, 1], since", None, None),
        ("[3, 3, 99]", None, None),
        ("[]", None, None),
        ("I cannot rank these.", None, None),
        ("", None, None),
        ('{"ranking": ["a", "b"]}', None, None),
        ("[999999999999999999999]", None, None),
    ],
)
def test_order_is_read_and_put_right(reply: str, order: list[int] | None, repaired: list[str] | None) -> None:
    assert read_order(reply, 3, 3) == (None if order is None else (order, repaired, True))


def test_only_what_was_asked_for_must_be_named() -> None:
    assert read_order("[5, 2]", 6, 2) == ([4, 1, 0, 2, 3, 5], [], True)
    assert read_order("[5]", 6, 3) is None
    assert read_order("[5, 1]", 6, 3) == ([4, 0, 1, 2, 3, 5], ["1 missing numbers appended"], True)


@each(
    ("reply", "informs"),
    [
        ("[1, 2, 3, 4, 5, 6]", False),
        ("[6, 5, 4, 3, 2, 1]", False),
        ("[6, 5, 4, 3]", False),
        ("[3, 2, 1]", True),  # by chance, one time in six
        ("[6, 5, 4, 3, 1, 2]", True),
    ],
)
def test_neighbours_in_a_row_say_nothing(reply: str, informs: bool) -> None:
    found = read_order(reply, 6, 6)
    assert found is not None and found.informs == informs


@given(st.text(alphabet='[]0123456789,> {}\n"abc'), st.integers(1, 12), st.integers(1, 12))
def test_whatever_the_reply_the_result_is_a_permutation(reply: str, count: int, asked: int) -> None:
    found = read_order(reply, count, asked)
    assert found is None or sorted(found[0]) == list(range(count))


def test_a_passage_rises_only_as_far_as_both_readings_raise_it() -> None:
    # Place 8 is first in both readings, so it becomes first; place 7 is second and third: it rises to 3 · 2 = 6,
    # before place 6 of the list.
    first, second = [8, 7, 0, 1, 2, 3, 4, 5, 6], [8, 0, 7, 1, 2, 3, 4, 5, 6]
    assert merge(first, second, 9) == [8, 0, 1, 2, 3, 4, 5, 7, 6]


def test_readings_that_agree_no_better_than_chance_change_nothing() -> None:
    assert merge([8, 7, 6, 5, 4, 3, 2, 1, 0], [8, 0, 1, 2, 3, 7, 6, 5, 4], 9) == [*range(9)]
    assert merge([4, 0, 1, 2, 3], [4, 0, 1, 2, 3], 5) == [4, 0, 1, 2, 3]  # 1 of 120 orders
    assert merge([3, 0, 1, 2], [3, 0, 1, 2], 4) == [0, 1, 2, 3]  # 1 of 24: too few passages
    # If one was to be named, the next ones say nothing: the same first of 50 is enough, and of 20 it is not.
    assert merge([9, *range(9), *range(10, 50)], [9, *range(9), *range(10, 50)], 1)[0] == 9
    assert merge([9, *range(9), *range(10, 20)], [9, *range(9), *range(10, 20)], 1)[0] == 0


@each(("depth", "count"), [(1, 4), (2, 5), (3, 6), (5, 7), (6, 6)])
def test_the_chance_of_an_overlap_is_that_of_all_orders(depth: int, count: int) -> None:
    every = [overlap(range(count), order, depth) for order in permutations(range(count))]
    for least in sorted(set(every)):
        counted = sum(value >= least for value in every) / len(every)
        assert chance_of_overlap(least, depth, count) == pytest.approx(counted)


def test_agreement_and_position_bias_by_hand() -> None:
    assert agreement([2, 0, 1], [2, 0, 1], 3) == 1.0 and agreement([2, 1, 0], [0, 1, 2], 3) == -1.0
    assert agreement([2, 1, 0], [2, 0, 1], 3) == pytest.approx(1 / 3)  # two of three pairs
    assert position_bias([0, 1, 2], [2, 1, 0]) == 1.0  # what is shown first is preferred, whichever it is
    assert position_bias([2, 1, 0], [0, 1, 2]) == -1.0 and position_bias([1, 0, 2], [1, 2, 0]) == 0.0


def test_long_text_is_cut_after_whole_tokens() -> None:
    assert clip("one two, three four", 3) == "one two, …"
    assert clip("one two", 2) == "one two"


# ---------------------------------------------------------------- windows


def test_number_of_calls_is_that_of_plain_sliding() -> None:
    assert calls(50, 20, 10) == 1 + 3
    assert calls(20, 20, 10) == 1
    assert calls(21, 20, 10) == 2
    assert calls(1, 20, 10) == 0


def test_neighbours_of_good_hits_take_the_place_of_the_tail() -> None:
    near = {2: [90, 1], 1: [91], 90: [92], 4: []}
    slide = Slide([0, 1, 2, 3, 4, 5], top=6, window=3, step=2, near=lambda found: [n for f in found for n in near[f]])
    assert slide.window == [0, 1, 2]
    slide.answer([2, 1, 0])  # 2 is carried; 1 and 0 settle; 90 is a neighbour of 2, then the ranking follows
    assert slide.window == [2, 90, 3]
    slide.answer([1, 0, 2])  # 90 first: 3 is settled, one more may be shown; now the ranking's turn
    assert slide.window == [90, 2, 4]
    assert not slide.answer([2, 0, 1])
    assert slide.result == [4, 90, 2, 1, 0, 3, 5]
    assert slide.adopted == 1


@given(st.data(), st.integers(0, 30), st.integers(1, 30), st.integers(1, 10), st.integers(1, 10))
def test_windows_lose_nothing_and_keep_to_the_budget(
    data: st.DataObject, candidates: int, top: int, window: int, step: int
) -> None:
    step = min(step, window)
    strangers = data.draw(st.lists(st.integers(0, 60), max_size=10))
    slide = Slide(list(range(candidates)), top, window, step, lambda found: strangers)
    asked, shown = 0, set(slide.window)
    while True:
        assert len(slide.window) == len(set(slide.window)) <= max(window, step + 1)
        asked += 1
        more = slide.answer(data.draw(st.permutations(range(len(slide.window)))))
        shown |= set(slide.window)
        if not more:
            break
    head = min(top, candidates)
    assert asked == max(1, calls(head, window, step)) or head < 2
    assert len(shown) <= max(head, 0)
    assert sorted(slide.result) == sorted(set(range(candidates)) | shown)


# ---------------------------------------------------------------- breaking points


def test_range_of_chunks_is_the_studys() -> None:
    assert chunk_range(10_000, 1000) == (7, 13)
    assert chunk_range(3_000, 1000) == (2, 6)
    assert chunk_range(100, 1000) == (2, 3)
    assert chunk_range(1_500, 1000) == (2, 5)


@each(
    ("reply", "found"),
    [
        ("3, 7", [3, 7]),
        ('"7, 3, 3"', [3, 7]),
        ("0, 4", "0 is not a sentence number from 1 to 9"),
        ("4, 10", "10 is not a sentence number from 1 to 9"),
        ("-4", "-4 is not a sentence number from 1 to 9"),
        ("1, 2, 3, 4, 5", "it named sentences one after another, not where topics change"),
        ("1, 3, 5, 7, 9", "it gave 5 breaking points instead of 1 to 3"),
        ("none", "it held no sentence numbers"),
        ("At 3 because " + "the topic changes " * 20, "it held more than a list of sentence numbers"),
    ],
)
def test_breaking_points_are_checked(reply: str, found: list[int] | str) -> None:
    assert read_breakpoints(reply, sentences=10, low=2, high=4) == found


# ---------------------------------------------------------------- weights


@each(
    ("reply", "found"),
    [
        ({"bm25": 0.25, "dense": 0.75}, [0.25, 0.75]),
        ({"dense": 1, "bm25": 0, "why": "text"}, [0.0, 1.0]),
        ({"bm25": 0.5, "dense": 0.75}, [0.4, 0.6]),  # real models seldom sum to 1
        ({"bm25": 0.0, "dense": 0}, "all weights are 0"),
        ({"dense": 0.544, "bm25": 24.284}, "the weight of bm25 is 24.284, not a number from 0 to 1"),  # a score, copied
        ({"bm25": -0.5, "dense": 1.5}, "the weight of bm25 is -0.5, not a number from 0 to 1"),
        ({"bm25": "0.5", "dense": 0.5}, "the weight of bm25 is '0.5', not a number from 0 to 1"),
        ({"bm25": True, "dense": 0.0}, "the weight of bm25 is True, not a number from 0 to 1"),
        ({"bm25": float("nan"), "dense": 0.0}, "the weight of bm25 is nan, not a number from 0 to 1"),
        ({"bm25": 1.0}, "no weight for dense"),
        ([0.5, 0.5], "the reply contained no JSON object"),
        (None, "the reply contained no JSON object"),
    ],
)
def test_weights_are_checked(reply: object, found: list[float] | str) -> None:
    assert check_weights(reply, ["bm25", "dense"]) == found


def test_a_rounded_sum_is_brought_to_one() -> None:
    weights = check_weights({"a": 0.33, "b": 0.33, "c": 0.33}, ["a", "b", "c"])
    assert weights == pytest.approx([1 / 3] * 3)


def test_rules_are_algorithm_2s() -> None:
    three = ["dense", "sparse", "graph"]
    assert rule_weights("fee of a Roth IRA", three) == pytest.approx([0.30, 0.55, 0.15])
    assert rule_weights("31 CFR 1020", three) == pytest.approx([0.30, 0.55, 0.15])
    assert rule_weights("why do plants grow", three) == pytest.approx([0.55, 0.30, 0.15])
    # without a graph, .55 and .30 are shared out in proportion: .55 / .85
    assert rule_weights("why do plants grow", ["sparse", "dense"]) == pytest.approx([0.30 / 0.85, 0.55 / 0.85])
    # two lexical rankings share one weight
    assert rule_weights("why", ["sparse", "sparse", "dense"]) == pytest.approx([0.15 / 0.85, 0.15 / 0.85, 0.55 / 0.85])


def test_distributions_are_the_numbers_of_this_query() -> None:
    lexical = rankings_of([([3, 1, 2], [9.0, 4.0, 1.0])])
    dense = rankings_of([([2, 5], [0.9, 0.8])], "dense", "dense", -1.0)
    first, second = distributions([lexical, dense], 0).split("\n")
    assert first.startswith("- bm25: 3 passages; highest scores 9.000, 4.000, 1.000; tenth 1.000; median 4.000;")
    assert "100% of the range" in first and "1 of its first ten" in first
    assert second.startswith("- dense: 2 passages; highest scores 0.900, 0.800;")
    assert distributions([rankings_of([([], [])])], 0) == "- bm25: found nothing."
    assert labels([dense, dense, lexical]) == ["dense", "dense_2", "bm25"]
