"""The gold of known-item questions: exact spans, whole sections, the sentences of a name."""

from __future__ import annotations

import re

from cases import each
from exam_helpers import BODY, document, sample_documents, sample_exam
from surefind.lab.exam.known_item import FAMILIES, generate
from surefind.lab.exam.model import ExamQuery
from surefind.lab.exam.overlap import plain, readable

TEXTS = {document.id: document.text for document in sample_documents()}
READABLE = {key: readable(text) for key, text in TEXTS.items()}
TITLES = {document.id: document.title for document in sample_documents()}
MANY = {"heading_paraphrase": 10, "faq": 15, "anchor_text": 1, "alias": 0}
"""Families of which the sample has less than a hundred questions."""


def of_family(family: str) -> list[ExamQuery]:
    return [query for query in sample_exam().queries if query.family == family]


@each("family", FAMILIES)
def test_sample_gives_many_questions_of_each_family(family: str) -> None:
    assert len(of_family(family)) >= MANY.get(family, 100)


def test_every_gold_span_lies_in_its_document() -> None:
    spans = [j for query in sample_exam().queries for j in query.judgments]
    assert all(0 <= j.start < j.end <= len(TEXTS[j.document]) for j in spans)


def test_every_quote_stands_at_the_start_of_its_span() -> None:
    spans = [j for query in sample_exam().queries for j in query.judgments]
    assert all(j.quote and TEXTS[j.document][j.start : j.end].startswith(j.quote) for j in spans)


def test_gold_has_no_white_space_at_its_ends() -> None:
    golds = [TEXTS[j.document][j.start : j.end] for query in sample_exam().queries for j in query.judgments]
    assert [gold for gold in golds if gold != gold.strip()] == []


def test_heading_stands_at_the_start_of_its_gold() -> None:
    for query in of_family("heading_direct"):
        heads = [plain(READABLE[j.document][j.start : j.end].lstrip().splitlines()[0]) for j in query.judgments]
        titles = [TITLES[j.document] for j in query.judgments]
        assert any(query.text in head for head in heads + titles), query


def test_gold_of_a_heading_holds_the_sections_below_it() -> None:
    text = f"# Cash handling rules\n\n{BODY}\n## Vault custody rules\n\nTwo keys.\n\n# Wire desk rules\n\n{BODY}"
    (query,) = (q for q in generate([document("a.md", text)]).queries if q.text == "Cash handling rules")
    gold = text[query.judgments[0].start : query.judgments[0].end]
    assert gold.startswith("# Cash") and gold.endswith("Two keys.")


def test_entity_stands_in_every_gold_sentence() -> None:
    for query in of_family("entity_lookup"):
        assert all(query.text in TEXTS[j.document][j.start : j.end] for j in query.judgments), query


def test_gold_of_an_entity_is_its_sentence_alone() -> None:
    text = "Open the drawer. Use form FRM-0815 for that. Close the drawer."
    (query,) = generate([document("a.md", text)], families=["entity_lookup"]).queries
    assert (query.text, text[query.judgments[0].start : query.judgments[0].end]) == (
        "FRM-0815",
        "Use form FRM-0815 for that.",
    )


def test_words_of_an_exact_phrase_stand_in_a_row_in_its_gold() -> None:
    for query in of_family("exact_phrase"):
        (j,) = query.judgments
        gold = re.sub(r"[^\w]+", " ", plain(TEXTS[j.document][j.start : j.end]))
        assert re.sub(r"[^\w]+", " ", query.text).strip() in gold, query


def test_exact_phrase_has_six_words() -> None:
    assert {len(query.text.split()) for query in of_family("exact_phrase")} == {6}


def test_exact_phrase_leaves_numbers_and_times_whole() -> None:
    text = "Xylophone quorum verdict: $250,000 at 13:00 zeppelin. "
    words = {word for query in generate([document("a.md", f"{text}{BODY}" * 1)]).queries for word in query.text.split()}
    assert not words & {"000", "00", "$250", "13"}


def test_first_sentence_opens_its_gold_section() -> None:
    for query in of_family("first_sentence"):
        assert any(query.text in plain(READABLE[j.document][j.start : j.end]) for j in query.judgments), query


def test_first_sentences_are_long_enough_to_mean_something() -> None:
    assert all(6 <= len(query.text.split()) <= 30 for query in of_family("first_sentence"))
