"""Overlap and leakage: every question is compared with the same amount of text."""

from __future__ import annotations

import pytest

from cases import each
from exam_helpers import QUESTIONS, document, sample_documents, sample_exam
from surefind.lab.exam._paraphrase import FORMS
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.table import read_table
from surefind.lab.exam.model import Exam, ExamQuery, Judgment
from surefind.lab.exam.overlap import BANDS, WINDOW, band, content_terms, leakage, overlap

TEXTS = {document.id: document.text for document in sample_documents()}


def filler(count: int) -> str:
    return "filler " * count


# ---------------------------------------------------------------- windows


def test_words_far_apart_in_a_long_passage_do_not_count_together() -> None:
    assert overlap("wire cutoff", f"wire {filler(WINDOW)} cutoff") == 1 / 2
    assert overlap("wire cutoff", f"wire {filler(WINDOW - 2)} cutoff") == 1


def test_best_window_of_a_long_passage_counts() -> None:
    text = f"wire {filler(300)} cutoff of the wire desk {filler(300)} friday"
    assert overlap("wire cutoff friday", text) == pytest.approx(2 / 3)


def test_short_passage_is_read_with_the_words_around_it() -> None:
    text = f"{filler(200)}The wire desk. Its cutoff is noon. {filler(200)}friday"
    at = text.index("Its")
    assert overlap("wire cutoff friday", text, at, at + len("Its cutoff is noon.")) == pytest.approx(2 / 3)


def test_short_passage_at_the_start_is_read_with_more_words_after_it() -> None:
    text = f"The wire desk. {filler(WINDOW - 10)} cutoff"
    assert overlap("wire cutoff", text, 0, len("The wire desk.")) == 1


def test_gold_sentence_and_gold_document_give_similar_overlaps() -> None:
    exam = read_table(QUESTIONS, Library(sample_documents()))
    by_span = [query.overlap or 0.0 for query in exam.queries]
    by_document = [max(overlap(query.text, TEXTS[j.document]) for j in query.judgments) for query in exam.queries]
    assert (sum(by_document) - sum(by_span)) / len(by_span) < 0.15  # 0.46 by the words of the sentence alone


def test_gold_documents_have_an_overlap() -> None:
    library = Library([document("a.md", f"The wire desk. {filler(500)}")])
    assert library.query("1", "wire cutoff", [Judgment("a.md")]).overlap == 1 / 2


def test_documents_that_are_judged_irrelevant_do_not_count() -> None:
    library = Library([document("a.md", "The wire desk.")])
    assert library.query("1", "wire", [Judgment("a.md", grade=0)]).overlap is None


# ---------------------------------------------------------------- content terms


@each("form", [form for forms in FORMS.values() for form in forms])
def test_words_of_a_template_are_not_counted(form: str) -> None:
    assert content_terms(form.format("zebra")) == {"zebra"}


@each("question", ["who can help me with zebras", "what is a zebra?", "how do I find a zebra?"])
def test_question_words_are_not_counted(question: str) -> None:
    assert content_terms(question) == {"zebra"}


def test_question_without_other_words_keeps_them() -> None:
    assert content_terms("who needs help") == {"who", "need", "help"}


def test_overlap_is_the_share_of_distinct_terms_found_in_the_passage() -> None:
    assert overlap("wire wire cutoff friday", "The wire desk has a cutoff.") == pytest.approx(2 / 3)


def test_overlap_ignores_endings_and_case() -> None:
    assert overlap("Filing Deadlines", "the deadline to file") == 1


def test_overlap_of_every_question_is_that_with_its_best_gold() -> None:
    for query in sample_exam().queries[::17]:
        best = max(overlap(query.text, TEXTS[j.document], j.start, j.end) for j in query.judgments)
        assert query.overlap == pytest.approx(best)


def test_headings_leak_wholly_and_paraphrases_much_less() -> None:
    found = leakage(sample_exam())
    assert found is not None
    assert found.families["heading_direct"]["overlap"] > 0.97
    assert found.families["heading_paraphrase"]["overlap"] < 0.8


def test_leakage_counts_every_question_in_one_band() -> None:
    found = leakage(sample_exam())
    assert found is not None
    assert sum(found.bands.values()) == len(sample_exam().queries)
    assert tuple(found.bands) == BANDS


@each(("shared", "expected"), [(0.0, "0–33%"), (0.33, "0–33%"), (0.34, "33–67%"), (0.7, "67–99%"), (1.0, "100%")])
def test_band_of_an_overlap(shared: float, expected: str) -> None:
    assert band(ExamQuery("1", "?", (), overlap=shared)) == expected


@each(("shared", "says"), [(0.9, "favours lexical"), (0.6, "people ask"), (0.1, "hard for")])
def test_leakage_says_in_words_what_the_overlap_means(shared: float, says: str) -> None:
    found = leakage(Exam("e", (ExamQuery("1", "?", (), overlap=shared),)))
    assert found is not None
    assert says in found.text and f"{shared:.0%}" in found.text


def test_leakage_of_questions_without_gold_spans_is_unknown() -> None:
    assert leakage(Exam("e", (ExamQuery("1", "?", ()),))) is None
