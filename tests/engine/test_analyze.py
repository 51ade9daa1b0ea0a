"""Text -> terms: identifiers whole and in parts, words stemmed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from surefind.base import spec
from surefind.base.types import EVERY, Chunk, Query
from surefind.engine.analyze import analyze
from surefind.engine.analyze.english import English
from surefind.engine.analyze.plain import Plain
from surefind.engine.retrieve.bm25 import BM25
from surefind.engine.services import LocalServices

FILLER = ["Tellers balance the drawer at close.", "Loans need two signatures.", "Call the branch on Monday."]


def finds(text: str, query: str) -> bool:
    chunks = [Chunk(str(i), 0, len(t), t) for i, t in enumerate([*FILLER, text])]
    found = BM25().build(chunks, LocalServices()).search(BM25(), [Query(query)], 1, EVERY)
    return found.ids.tolist() == [[3]]


@each(
    ("text", "query"),
    [
        ("Report under 31 CFR 1020.320(d) at once.", "31 CFR 1020.320(d)"),
        ("Report under 31 CFR 1020.320(d) at once.", "1020.320"),
        ("Report under 31 CFR 1020.320(d) at once.", "320"),
        ("Open CU*BASE first.", "CU*BASE"),
        ("Open CU*BASE first.", "base"),
        ("Open CU*BASE first.", "cu"),
        ("The kube-apiserver is down.", "kube-apiserver"),
        ("The kube-apiserver is down.", "apiserver"),
        ("Needs v1.2.3 or later.", "v1.2.3"),
        ("Needs v1.2.3 or later.", "v1"),
        ("Alert KubeAPIErrorBudgetBurn fired.", "KubeAPIErrorBudgetBurn"),
        ("Alert KubeAPIErrorBudgetBurn fired.", "kubeapierrorbudgetburn"),
        ("Alert KubeAPIErrorBudgetBurn fired.", "error budget"),
        ("Alert KubeAPIErrorBudgetBurn fired.", "api"),
        ("Cash above $10,000 counts.", "10000"),
        ("The member's card.", "members"),
        ("Run job EOD-7 again.", "eod-7"),
        ("Set max_file_size now.", "max_file_size"),
        ("Set max_file_size now.", "size"),
        ("Filing a report.", "files"),
        ("Das Café in Zürich.", "zürich"),
    ],
)
def test_identifier_or_word_is_found_by(text: str, query: str) -> None:
    assert finds(text, query)


def test_identifier_in_full_beats_its_parts() -> None:
    texts = ["part 1020 and part 320 of the rule", "see 1020.320(d) of the rule", "rule 320"]
    chunks = [Chunk(str(i), 0, len(t), t) for i, t in enumerate(texts)]
    found = BM25().build(chunks, LocalServices()).search(BM25(), [Query("1020.320(d)")], 3, EVERY)
    assert found.ids[0, 0] == 1


def test_terms_written_out() -> None:
    assert analyze(English(), "Filing under 31 CFR 1020.320(d)") == [
        "file", "under", "31", "cfr", "1020.320(d)", "1020.320", "1020", "320",
    ]  # fmt: skip


def test_stop_words_are_left_out_and_may_be_kept() -> None:
    assert analyze(English(), "the cash and THE card") == ["cash", "card"]
    assert analyze(English(stopwords=False, stem=False), "the cash") == ["the", "cash"]


def test_words_that_policies_turn_on_are_no_stop_words() -> None:
    assert analyze(English(stem=False), "before without over under after") == "before without over under after".split()


def test_plain_keeps_every_word_as_it_is() -> None:
    assert analyze(Plain(), "The Filing of CU*BASE") == ["the", "filing", "of", "cu*base"]


@pytest.mark.parametrize("name", spec.names("analyze"))
@given(text=st.text())
def test_analyzer_gives_real_terms_for_any_text(name: str, text: str) -> None:
    terms = analyze(spec.make("analyze", name), text)
    assert all(isinstance(term, str) and term.strip() for term in terms)


@pytest.mark.parametrize("name", spec.names("analyze"))
@given(words=st.lists(st.from_regex(r"[a-z]{3,10}", fullmatch=True), max_size=8))
def test_analyzer_does_not_look_across_words(name: str, words: list[str]) -> None:
    analyzer = spec.make("analyze", name)
    assert analyze(analyzer, " ".join(words)) == [term for word in words for term in analyze(analyzer, word)]


@given(st.text(alphabet="aAbB1.-_*/(),'’:+&@ ", max_size=30))
def test_analyzing_upper_case_finds_the_whole_form_of_lower_case(text: str) -> None:
    assert [t.lower() for t in Plain().tokens(text)] == Plain().tokens(text.lower())
