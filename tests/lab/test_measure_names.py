"""Measures by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from surefind.base.errors import SpecError
from surefind.lab.measure.ranks import MEASURES, SPAN_MEASURES, Measure, parse_measure

ranked = st.builds(
    Measure, st.sampled_from(sorted(MEASURES)), st.integers(1, 1000), st.sampled_from(["document", "span", "chunk"])
)
of_spans = st.builds(Measure, st.sampled_from([name for name in SPAN_MEASURES if name.isalpha()]), st.integers(1, 1000))


@given(ranked | of_spans)
def test_a_measure_reads_back_from_its_name(measure: Measure) -> None:
    assert parse_measure(str(measure)) == measure


@each("name", [name for name in SPAN_MEASURES if not name.isalpha()])
def test_gold_span_measure_with_a_digit_reads_back_from_its_name(name: str) -> None:
    assert parse_measure(f"{name}@10") == Measure(name, 10)


@each("name", ["nDCG@10", "R@5:chunk", "Success@1:span", "T1EM", "BC@3"])
def test_a_name_is_shown_as_it_was_written(name: str) -> None:
    assert str(parse_measure(name)) == name


@each(
    ("written", "meant"),
    [("ndcg@10", "nDCG@10"), ("mrr@10", "RR@10"), ("map@100", "AP@100"), ("recall@5", "R@5"), ("Precision@5", "P@5")],
)
def test_common_names_are_understood(written: str, meant: str) -> None:
    assert str(parse_measure(written)) == meant


def test_document_level_is_not_written_out() -> None:
    assert str(parse_measure("nDCG@10:document")) == "nDCG@10"


@each("name", ["nDCG", "nDCG@", "nDCG@0", "nDCG@-1", "nDGC@10", "", "10@nDCG", "nDCG@10:"])
def test_unknown_measure_lists_all_there_are(name: str) -> None:
    with pytest.raises(SpecError, match=r"There is no measure .*Choices: AC, AO, AP@k, .*T5EM, nDCG@k\."):
        parse_measure(name)


def test_wrong_measure_or_level_is_answered_with_the_right_ones() -> None:
    wrong = {
        "nDCG": r"Did you mean nDCG@10\?",
        "R@5:passage": r"no level 'passage'\. Choices: chunk, document, span\.",
        "BC@3:chunk": "level",  # a gold-span measure has none
    }
    for name, words in wrong.items():
        with pytest.raises(SpecError, match=words):
            parse_measure(name)


def test_there_are_eleven_gold_span_measures() -> None:
    assert len(set(SPAN_MEASURES)) == 11
