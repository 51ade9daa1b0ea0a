"""The rule: the default, unless real questions show a significant gain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cases import each
from surefind import Pipeline
from surefind.base.types import Floats
from surefind.engine.write.layout import Layout
from surefind.kb.settings.config import default_settings
from surefind.kb.settings.template import BASES
from surefind.lab.bench.latency import Timing
from surefind.lab.bench.plan import Contender
from surefind.lab.bench.recommendation import (
    DefaultRow,
    Recommendation,
    basis,
    chooses,
    default_row,
    describe,
    economical,
    recommend,
)
from surefind.lab.exam.known_item import EVERY
from surefind.lab.exam.model import ExamQuery

PAIR = DefaultRow(0, measured=True)


def asked(count: int, family: str = "questions") -> list[ExamQuery]:
    return [ExamQuery(str(i), "?", (), family=family) for i in range(count)]


def table(*gains: list[float], repeats: int = 5) -> Floats:
    """The scores of the default, 0.5 for each question, and of rows with these gains, repeated."""
    columns = np.array([[0.0] * len(gains[0]), *gains]).T
    return np.asarray(0.5 + np.tile(columns, (repeats, 1)))


def found(scores: Floats, default: DefaultRow = PAIR, family: str = "questions") -> Recommendation:
    return recommend(scores, asked(len(scores), family), default)


# ---------------------------------------------------------------- a gain that is significant


def test_a_significant_gain_is_taken() -> None:
    """Ten gains of 0.2 and 0: mean 0.1, spread 0.105, error 0.033, t = 3.0; 2.26 is enough for nine degrees."""
    advice = found(table([0.2, 0.0]))
    assert (advice.best, advice.real, advice.rival, advice.decisive) == (1, 10, None, None)
    assert advice.gains[1].mean == pytest.approx(0.1) and advice.gains[1].low == pytest.approx(
        0.1 - 2.262 / 30, abs=1e-4
    )


def test_a_gain_that_may_be_noise_is_not() -> None:
    """Ten gains of 0.2 and -0.1: mean 0.05, spread 0.158, error 0.05, t = 1.0. To find 0.015 with 80% power takes
    (2.80 · 0.158 / 0.015)² = 872 questions."""
    advice = found(table([0.2, -0.1]))
    assert (advice.best, advice.rival, advice.decisive) == (0, 1, 870)


def test_more_of_the_same_questions_make_it_significant() -> None:
    """With 40 questions the error is 0.024, and t = 2.1; 2.02 is enough."""
    assert found(table([0.2, -0.1], repeats=20)).best == 1


def test_of_significant_gains_the_highest_is_taken_and_a_higher_one_that_may_be_noise_is_not() -> None:
    advice = found(table([0.05, 0.05], [0.1, 0.1], [0.9, -0.5]))
    assert advice.means == pytest.approx([0, 0.05, 0.1, 0.2]) and advice.best == 2


def test_a_loss_is_never_taken() -> None:
    advice = found(table([-0.2, 0.0]))
    assert (advice.best, advice.rival) == (0, None)


def test_an_equal_row_is_no_gain() -> None:
    assert found(table([0.0, 0.0])).best == 0


def test_the_rule_is_that_of_the_default_row() -> None:
    scores = table([0.2, 0.0])
    assert found(scores[:, ::-1], DefaultRow(1)).best == 0 and found(scores[:, ::-1], DefaultRow(0)).best == 0


# ---------------------------------------------------------------- questions that choose


@each("family", [*EVERY, "sf1h", "sf2h", "mf2h"])
def test_questions_made_from_documents_never_choose(family: str) -> None:
    advice = found(table([0.2, 0.0], repeats=50), family=family)
    assert (advice.best, advice.real, advice.written, advice.gains) == (0, 0, 100, [])


def test_fewer_than_ten_real_questions_do_not_choose() -> None:
    scores = table([0.3, 0.2])
    assert recommend(scores, asked(10), PAIR).best == 1
    few = recommend(scores, [*asked(9), *asked(1, "exact_phrase")], PAIR)
    assert (few.best, few.real, few.written) == (0, 9, 1)


def test_questions_in_other_words_than_the_documents_may_tune_and_do_not_choose() -> None:
    assert chooses(asked(1, "heading_paraphrase")[0]) and chooses(asked(1)[0])
    assert not chooses(asked(1, "exact_phrase")[0])


# ---------------------------------------------------------------- what costs less


def times(*p50: float) -> dict[int, Timing]:
    return {i: Timing(value, value, value, value, value, {}) for i, value in enumerate(p50)}


def chosen(advice: Recommendation, latency: dict[int, Timing], reranked: list[bool]) -> int:
    return economical(advice.best, advice.means, advice.losses, latency, reranked, advice.candidates)


@each(("gain", "row"), [(0.014, 0), (0.016, 1)])
def test_a_reranker_must_gain_more_than_the_margin(gain: float, row: int) -> None:
    advice = found(table([gain, gain]))
    assert advice.best == 1 and chosen(advice, times(10, 700), [False, True]) == row


def test_a_reranker_is_compared_with_rows_that_may_be_chosen() -> None:
    """The last row is within the margin of the reranker, but its own gain over the default may be noise."""
    advice = found(table([0.05, 0.05], [0.5, -0.41]))
    assert advice.candidates == [0, 1] and chosen(advice, times(10, 700, 10), [False, True, False]) == 1


def test_a_default_with_a_reranker_stays_unless_a_faster_row_is_as_good() -> None:
    """Losses of 0.01 and 0: mean 0.005, error 0.0017, at most 0.005 + 1.83 · 0.0017 = 0.008. Of 0.05 and -0.04: error
    0.015, at most 0.033, which is not known to be within the margin."""
    close, far = found(table([-0.01, 0.0])), found(table([-0.05, 0.04]))
    assert close.losses[1] == pytest.approx(0.0081, abs=1e-4) and far.losses[1] == pytest.approx(0.0325, abs=1e-4)
    assert chosen(close, times(700, 10), [True, False]) == 1
    assert chosen(far, times(700, 10), [True, False]) == 0


def test_without_real_questions_nothing_replaces_the_default() -> None:
    advice = found(table([0.2, 0.0]), family="exact_phrase")
    assert chosen(advice, times(700, 10), [True, False]) == 0


# ---------------------------------------------------------------- the row of the default

SETTINGS = default_settings()


def row(text: str, layout: Layout | None = None) -> Contender:
    return Contender(text, Pipeline.parse(text), layout)


def test_the_default_is_what_searches_use() -> None:
    rows = [row("bm25"), row(BASES["pair"])]
    assert default_row(rows, SETTINGS) == DefaultRow(1, measured=True)
    assert default_row([*rows, row(BASES["hybrid"])], replace(SETTINGS, pipeline="hybrid")) == DefaultRow(2)


def test_a_second_name_of_the_fuser_is_the_same_configuration() -> None:
    own = replace(SETTINGS, pipeline="mine", pipelines={"mine": Pipeline.parse("bm25 + dense >> rsf")})
    assert default_row([row("bm25"), row("bm25 + dense >> convex(alpha=0.5)")], own).row == 1


def test_a_row_without_a_reranker_stands_for_a_default_that_is_not_there() -> None:
    rows = [row("bm25 >> cross_encoder"), row("dense"), row("bm25")]
    assert default_row(rows, SETTINGS) == DefaultRow(1, "pair")
    assert default_row(rows[:1], SETTINGS) == DefaultRow(0, "pair")


def test_of_layouts_the_one_in_use_is_the_default() -> None:
    rows = [row(BASES["pair"], Layout.read("whole")), row(BASES["pair"], SETTINGS.layout)]
    assert default_row(rows, SETTINGS) == DefaultRow(1, measured=True)
    others = [row("dense", Layout.read("whole")), row("bm25", SETTINGS.layout)]
    assert default_row(others, SETTINGS) == DefaultRow(1, "pair")


# ---------------------------------------------------------------- the text


def said(advice: Recommendation, row: int | None = None, latency: dict[int, Timing] | None = None) -> str:
    return basis(["pair", "hybrid"], advice, advice.best if row is None else row, latency or {})


def test_without_real_questions_the_text_says_what_the_default_may_lose() -> None:
    assert said(found(table([0.2, 0.0]), family="exact_phrase")) == (
        "No real question was asked, so this is the default; on eleven collections with real questions it was "
        "0.7 points of nDCG@10 below the best of 29 rows on average, 4.8 in the worst. 30 real questions would cut "
        "that to 0.3."
    )
    few = recommend(table([0.2, 0.0]), [*asked(4), *asked(6, "faq")], PAIR)
    assert said(few).startswith(
        "The exam has only 4 real questions, and 10 are needed, so this is the default; on eleven"
    )
    assert describe(["pair", "hybrid"], few) == "The 6 questions that were written from the documents do not choose."


def test_another_default_was_not_measured() -> None:
    text = said(found(table([0.2, 0.0]), DefaultRow(0), "exact_phrase"))
    assert text == (
        "No real question was asked, so this is the default. 30 real questions show whether another row is much better."
    )
    assert "collections" not in said(found(table([0.2, 0.0]), DefaultRow(0)))


def test_with_real_questions_the_text_says_the_gain_and_what_such_a_choice_loses() -> None:
    assert said(found(table([0.2, 0.0]))) == (
        "Over your 10 real questions hybrid scores 10.0 points [2.5, 17.5] more than pair, the default. On eleven "
        "collections with 30 questions each, such a choice was 0.3 points of nDCG@10 below the best of 29 rows "
        "on average, 0.9 in the worst."
    )
    assert "with 75 questions each" in said(found(table([0.2, 0.0], repeats=70)))


def test_the_text_says_that_no_gain_is_significant_and_how_many_questions_would_show_one() -> None:
    advice = found(table([0.2, -0.1]))
    assert said(advice).startswith(
        "Over your 10 real questions no row is significantly better than pair, the default. O"
    )
    assert describe(["pair", "hybrid"], advice) == (
        "hybrid scores 5.0 points [-6.3, 16.3] more than pair, which may be noise. About 870 real questions would show "
        "a gain of 1.5 points."
    )


def test_the_text_says_what_a_cheaper_row_loses() -> None:
    advice = found(table([-0.01, 0.0]))
    assert said(advice, 1, times(700, 10)) == (
        "Over your 10 real questions pair scores only 0.5 points more (at most 0.8), and its searches take more than "
        "ten times as long as with hybrid."
    )
    better = found(table([0.02, -0.01]))
    assert (better.best, chosen(better, times(700, 10), [True, False])) == (0, 1)
    assert said(better, 1, times(700, 10)) == (
        "Over your 10 real questions pair scores 0.5 points less, and its searches take more than ten times as long as "
        "with hybrid."
    )


def test_the_text_says_which_row_stands_for_the_default() -> None:
    absent = DefaultRow(0, "mine")
    nothing, real = found(table([0.2, 0.0]), absent, "faq"), found(table([0.2, 0.0]), absent)
    assert said(nothing) == (
        "No real question was asked, and mine, the default, is not in this table: pair stands for it."
    )
    assert said(real) == (
        "Over your 10 real questions hybrid scores 10.0 points [2.5, 17.5] more than pair, which stands for the "
        "default."
    )
    assert describe(["pair", "hybrid"], real) == "mine, the default, is not in this table, so pair stands for it."
