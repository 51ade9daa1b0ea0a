"""Known-item questions: the same for the same seed, exact in their gold, fair in what they ask."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest

from exam_helpers import document, few_documents, sample_documents, sample_exam
from helpers import times_slower
from surefind.analyze.english import English
from surefind.errors import ExamError
from surefind.exam._documents import ExamDocuments, plain
from surefind.exam._readable import readable
from surefind.exam.families.entity_lookup import _documents_of, entity_lookup
from surefind.exam.families.exact_phrase import exact_phrase
from surefind.exam.families.heading_direct import heading_direct
from surefind.exam.known_item import FAMILIES, generate
from surefind.exam.model import Exam, ExamQuery
from surefind.exam.overlap import content_terms
from surefind.types import Document

TEXTS = {document.id: document.text for document in sample_documents()}
READABLE = {id: readable(text) for id, text in TEXTS.items()}
TITLES = {document.id: document.title for document in sample_documents()}
MANY = {"heading_paraphrase": 10, "faq": 15, "anchor_text": 1, "alias": 0}
"""Families of which the sample has less than a hundred questions."""
BODY = "The teller counts the drawer twice and then signs the sheet for the shift.\n"


def of_family(family: str, exam: Exam | None = None) -> list[ExamQuery]:
    return [query for query in (exam or sample_exam()).queries if query.family == family]


def asked(*documents: Document, family: str) -> dict[str, list[str]]:
    """What one family asks of these documents, and the documents that answer."""
    found = generate(documents, families=[family]).queries
    return {query.text: sorted({j.document for j in query.judgments}) for query in found}


# ---------------------------------------------------------------- seeds, caps, repetitions


def test_same_seed_gives_the_same_exam() -> None:
    assert generate(few_documents(), per_family=5).queries == generate(few_documents(), per_family=5).queries


def test_order_of_the_documents_does_not_matter() -> None:
    forward, backward = (generate(docs, per_family=5) for docs in (few_documents(), few_documents()[::-1]))
    assert forward.fingerprint == backward.fingerprint


def test_another_seed_draws_other_questions() -> None:
    first, second = ({query.text for query in generate(few_documents(), per_family=5, seed=s).queries} for s in (1, 2))
    assert len(first & second) < len(first) / 2


def test_origin_tells_how_to_write_the_exam_again() -> None:
    assert generate(few_documents(), per_family=5, seed=7).origin == "generate --per-family 5 --seed 7"


def test_every_family_is_written_up_to_its_cap() -> None:
    found = generate(few_documents(), per_family=7).families()
    assert {name for name, count in found.items() if count == 7} >= set(FAMILIES) - set(MANY)
    assert max(found.values()) == 7


def test_only_the_families_asked_for_are_written() -> None:
    assert set(generate(few_documents(), families=["first_sentence"]).families()) == {"first_sentence"}


def test_unknown_family_lists_the_families() -> None:
    with pytest.raises(ExamError, match=r"called 'heading_directs'\. Did you mean heading_direct\? Choices: alias, "):
        generate(few_documents(), families=["heading_directs"])


def test_documents_without_text_to_ask_about_are_refused() -> None:
    with pytest.raises(ExamError, match="No questions can be written from these documents"):
        generate([document("a.md", "word")])


def test_cap_below_one_is_refused() -> None:
    with pytest.raises(ExamError, match="per"):
        generate(few_documents(), per_family=-1)


def test_ids_are_unique() -> None:
    ids = Counter(query.id for query in sample_exam().queries)
    assert ids.most_common(1)[0][1] == 1


def test_family_named_twice_is_written_once() -> None:
    exam = generate(few_documents(), per_family=3, families=["first_sentence", "first_sentence"])
    assert exam.families() == {"first_sentence": 3}


def test_no_two_questions_have_the_same_words() -> None:
    words = Counter(" ".join(sorted(content_terms(query.text))) for query in sample_exam().queries)
    assert words.most_common(1)[0][1] == 1


def test_long_documents_do_not_fill_the_exam() -> None:
    long = document("long.md", "".join(f"# Topic number {word}\n\n{BODY}\n" for word in "one two three four".split()))
    short = document("short.md", f"# Closing procedure\n\n{BODY}")
    exam = generate([long, short], per_family=2, families=["heading_direct"])
    assert {query.judgments[0].document for query in exam.queries} == {"long.md", "short.md"}


# ---------------------------------------------------------------- gold


@pytest.mark.parametrize("family", FAMILIES)
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


# ---------------------------------------------------------------- ambiguity


def headed(count: int, heading: str) -> list[Document]:
    """Documents that share a heading, below a heading of their own."""
    return [
        document(f"{i}.md", f"# {word} manual\n\n{BODY}\n## {heading}\n\n{BODY}")
        for i, word in zip(range(count), "Teller Vault Lending Wire Audit".split(), strict=False)
    ]


def test_heading_of_five_documents_is_dropped() -> None:
    assert "Escalation contacts" not in asked(*headed(5, "Escalation contacts"), family="heading_direct")


def test_heading_of_two_documents_is_judged_against_both() -> None:
    found = asked(*headed(2, "Escalation contacts"), family="heading_direct")
    assert found["Escalation contacts"] == ["0.md", "1.md"]


def test_heading_that_fits_another_document_through_its_title_is_judged_against_both() -> None:
    one = document("one.md", f"# Vault escalation contacts\n\n{BODY}")
    two = document("two.md", f"# Vault\n\n## Escalation contacts\n\n{BODY}", "Vault")
    assert asked(one, two, family="heading_direct")["Vault escalation contacts"] == ["one.md", "two.md"]


def test_shared_word_and_the_title_do_not_make_another_document_gold() -> None:
    one = document("one.md", f"# Vault alarm contacts\n\n{BODY}")
    two = document("two.md", f"# Vault alarm\n\n## Emergency contacts\n\n{BODY}", "Vault alarm")
    three = document("three.md", f"# Wire cutoff times\n\n{BODY}")
    assert asked(one, two, three, family="heading_direct") == {
        "Emergency contacts": ["two.md"],
        "Wire cutoff times": ["three.md"],
    }


def test_heading_that_another_document_might_answer_is_dropped() -> None:
    one = document("one.md", f"# Restarting the gateway\n\n{BODY}")
    two = document("two.md", f"# Restarting the gateway printer\n\n{BODY}")
    assert asked(one, two, family="heading_direct") == {"Restarting the gateway printer": ["two.md"]}


@pytest.mark.parametrize(
    "heading", ["Overview and purpose", "Next steps", "Further reading", "Related documents", "What you need to know"]
)
def test_generic_heading_is_not_asked(heading: str) -> None:
    one = document("one.md", f"# Wire cutoff times\n\n{BODY}\n## {heading}\n\n{BODY}")
    assert list(asked(one, family="heading_direct")) == ["Wire cutoff times"]


def test_numbering_does_not_make_headings_differ() -> None:
    one, two = (document(f"{n}.md", f"# {n}. Vault alarm rules\n\n{BODY}") for n in (1, 2))
    assert asked(one, two, family="heading_direct") == {"Vault alarm rules": ["1.md", "2.md"]}


def test_gold_of_a_repeated_heading_ends_where_its_section_ends() -> None:
    text = f"# Teller manual\n\n## Vault alarm\n\n{BODY}\n## Wire desk\n\n{BODY}\n## Vault alarm\n\n{BODY}"
    (query,) = (q for q in generate([document("a.md", text)]).queries if q.text == "Vault alarm")
    assert [text[j.start : j.end] for j in query.judgments] == [f"## Vault alarm\n\n{BODY.strip()}"] * 2


def test_title_of_the_front_matter_is_a_heading_of_the_whole_document() -> None:
    one = Document("a.md", BODY * 2, "Wire cutoff times", metadata={"title": "Wire cutoff times"})
    (query,) = generate([one], families=["heading_direct"]).queries
    assert (query.text, query.judgments[0].start, query.judgments[0].end) == (
        "Wire cutoff times",
        0,
        len((BODY * 2).strip()),
    )


def test_name_of_a_file_is_not_a_heading() -> None:
    one = document("wire-cutoff-times.md", f"# Vault alarm\n\n{BODY}", "wire-cutoff-times")
    assert list(asked(one, family="heading_direct")) == ["Vault alarm"]


@pytest.mark.parametrize(
    "caption",
    [
        "Table 2: Wire cutoff times",
        "**Figure 3.** Wire cutoff times",
        "Table: Wire cutoff times",
        "<table><caption>Wire cutoff times</caption></table>".replace("<table>", ""),
    ],
)
def test_caption_is_a_heading_of_its_section(caption: str) -> None:
    one = document("a.md", f"# Vault alarm\n\n{BODY}\n{caption}\n\n| a | b |\n|---|---|\n| c | d |\n")
    assert asked(one, family="heading_direct") == {"Vault alarm": ["a.md"], "Wire cutoff times": ["a.md"]}


def test_first_sentence_of_many_documents_is_dropped() -> None:
    same = [document(f"{i}.md", f"# Title {i}\n\nThis policy binds all members of the staff.") for i in range(4)]
    own = document("own.md", "# Own\n\nThis rule binds only the tellers of one branch.")
    assert list(asked(*same, own, family="first_sentence")) == ["This rule binds only the tellers of one branch"]


def test_first_sentence_of_two_documents_is_judged_against_both() -> None:
    same = [document(f"{i}.md", f"# Title {i}\n\nThis policy binds all members of the staff.") for i in range(2)]
    assert asked(*same, family="first_sentence")["This policy binds all members of the staff"] == ["0.md", "1.md"]


def with_entity(count: int) -> list[Document]:
    return [document(f"{i}.md", f"Please use the form FRM-0815 in case {i}.") for i in range(count)]


def test_entity_of_more_than_three_documents_is_dropped() -> None:
    own = document("own.md", "Please use the form FRM-4711 here.")
    assert asked(*with_entity(4), own, family="entity_lookup") == {"FRM-4711": ["own.md"]}


def test_entity_of_three_documents_is_judged_against_all() -> None:
    assert asked(*with_entity(3), family="entity_lookup") == {"FRM-0815": ["0.md", "1.md", "2.md"]}


def test_entity_that_stands_elsewhere_in_another_case_is_dropped() -> None:
    upper, lower = document("a.md", "Use FRM-0815 here."), document("b.md", "Use frm-0815 here, or FRM-4711.")
    assert asked(upper, lower, family="entity_lookup") == {"FRM-4711": ["b.md"]}


def test_name_that_opens_a_sentence_in_many_documents_is_dropped() -> None:
    many = [document(f"{i}.md", "Harbor Online is down today.") for i in range(5)]
    one = document("one.md", "We call it Harbor Online, or FRM-4711.")
    assert "Harbor Online" not in asked(*many, one, family="entity_lookup")


def test_word_in_capitals_that_is_an_ordinary_word_elsewhere_is_dropped() -> None:
    many = [document(f"{i}.md", "Count it over again, please.") for i in range(5)]
    one = document("one.md", "Press OVER now, or FRM-4711.")
    assert "OVER" not in asked(*many, one, family="entity_lookup")


def test_every_document_that_holds_an_entity_is_judged() -> None:
    folded = {id: text.casefold() for id, text in TEXTS.items()}
    for query in of_family("entity_lookup"):
        pattern = re.compile(rf"(?<!\w){re.escape(query.text)}(?!\w)", re.IGNORECASE)
        near = [id for id, text in folded.items() if query.text.casefold() in text]  # the pattern is slow
        holding = {id for id in near if pattern.search(TEXTS[id])}
        assert holding == {j.document for j in query.judgments}, query.text


def test_phrase_that_stands_twice_is_dropped() -> None:
    twice = [document(f"{i}.md", BODY) for i in range(2)]
    own = document("own.md", "Each zebra in the enclosure eats four kilos of hay a day.")
    assert {id for ids in asked(*twice, own, family="exact_phrase").values() for id in ids} == {"own.md"}


# ---------------------------------------------------------------- names as whole words


@pytest.mark.parametrize(
    ("text", "stands"),
    [
        ("see frm-0815", True),
        ("see FRM-0815_A", False),
        ("see XFRM-0815", False),
        ("see FRM-0815-A", True),
        ("see FRM-08150 and frm-0815.", True),
        ("see 申請書FRM-0815の", True),
        ("see FRM-0815é", False),
    ],
)
def test_entity_stands_in_another_document_as_whole_words_only(text: str, stands: bool) -> None:
    corpus = ExamDocuments([document("a.md", "Please use FRM-0815 here."), document("b.md", text)])
    assert _documents_of(corpus, ["FRM-0815"]) == {"frm-0815": {"a.md", "b.md"} if stands else {"a.md"}}


def test_entities_that_begin_alike_or_lie_in_each_other_are_all_found() -> None:
    text = "under 12 CFR 1020.310(b) and 12 CFR 1020, New York Harbor and New York"
    wanted = ["12 CFR 1020.310(b)", "12 CFR 1020", "New York Harbor", "New York", "York Harbor", "12 CFR 10", "CFR"]
    found = _documents_of(ExamDocuments([document("a.md", text)]), wanted)
    assert [entity for entity in wanted if not found[entity.lower()]] == ["12 CFR 10"]


# ---------------------------------------------------------------- growth


def with_own_names(count: int) -> ExamDocuments:
    """Documents of which each has a form and a heading of its own, in words that all of them share."""
    made = [
        document(f"{i:05}.md", f"# Overview of form {i}\n\nPlease use FRM-{i:05} in case {i} whenever one is needed.\n")
        for i in range(count)
    ]
    corpus = ExamDocuments(made)
    for one in made:
        corpus.sections(one)  # parsing is not what is timed
    return corpus


@pytest.mark.parametrize("family", FAMILIES)
def test_time_grows_with_the_documents_and_not_with_their_square(family: str) -> None:
    def work(count: int) -> Callable[[], object]:
        corpus = with_own_names(count)
        return lambda: list(FAMILIES[family](ExamDocuments(corpus.documents, 0, corpus._sections)))

    assert times_slower(work(3_200), work(200), enough=50) <= 50  # the square would be 256


def test_every_word_is_analysed_once_however_many_phrases_it_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    analysed: Counter[str] = Counter()
    of_token = English.terms
    monkeypatch.setattr(English, "terms", lambda self, token: (analysed.update([token]), of_token(self, token))[1])
    words = [f"zyx{chr(97 + i)}wvut" for i in range(20)]  # of no other test: what was analysed before is known
    text = " ".join(" ".join(words[i::7] + words[i::3]).capitalize() + "." for i in range(3))
    assert list(exact_phrase(ExamDocuments([document("a.md", text)])))
    assert max(analysed[word] for word in words) == 1


def test_time_of_names_grows_with_a_line_and_not_with_its_square() -> None:
    def work(count: int) -> Callable[[], object]:
        line = " ".join(f"Please use FRM-{i:05} here." for i in range(count))
        return lambda: list(entity_lookup(ExamDocuments([document("a.md", line)])))

    assert times_slower(work(1_600), work(100), enough=50) <= 50  # the square would be 256


def test_time_of_headings_grows_with_the_sections_of_a_document_and_not_with_their_square() -> None:
    def work(count: int) -> Callable[[], object]:
        one = document("a.md", "\n".join(f"## Release number {i}\n\n{BODY}" for i in range(count)))
        known = {one.id: ExamDocuments([one]).sections(one)}
        return lambda: list(heading_direct(ExamDocuments([one], 0, known)))

    assert times_slower(work(3_200), work(200), enough=50) <= 50  # the square would be 256
