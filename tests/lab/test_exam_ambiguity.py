"""Questions that several documents answer: judged against all of them, or dropped."""

from __future__ import annotations

import re

from cases import each
from exam_helpers import BODY, document, sample_documents, sample_exam
from surefind.base.types import Document
from surefind.lab.exam._documents import ExamDocuments
from surefind.lab.exam.families.names import holders
from surefind.lab.exam.known_item import generate


def asked(*documents: Document, family: str) -> dict[str, list[str]]:
    """What one family asks of these documents, and the documents that answer."""
    found = generate(documents, families=[family]).queries
    return {query.text: sorted({j.document for j in query.judgments}) for query in found}


# ---------------------------------------------------------------- headings


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


@each(
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


@each(
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


# ---------------------------------------------------------------- sentences, names, phrases


def test_first_sentence_of_many_documents_is_dropped() -> None:
    same = [document(f"{i}.md", f"# Title {i}\n\nThis policy binds all members of the staff.") for i in range(4)]
    own = document("own.md", "# Own\n\nThis rule binds only the tellers of one branch.")
    assert list(asked(*same, own, family="first_sentence")) == ["This rule binds only the tellers of one branch"]


def test_first_sentence_of_two_documents_is_judged_against_both() -> None:
    same = [document(f"{i}.md", f"# Title {i}\n\nThis policy binds all members of the staff.") for i in range(2)]
    assert asked(*same, family="first_sentence")["This policy binds all members of the staff"] == ["0.md", "1.md"]


def test_sentence_without_a_letter_is_not_asked() -> None:
    drawn = document("a.md", "# Vault\n\n— ~ — ~ — ~ — ~\n")
    own = document("own.md", "# Own\n\nThis rule binds only the tellers of one branch.")
    assert list(asked(drawn, own, family="first_sentence")) == ["This rule binds only the tellers of one branch"]


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


def test_entity_in_the_title_of_another_document_is_dropped() -> None:
    one = document("a.md", "Please use the Harbor Online desk, or FRM-4711.")
    titled = document("b.md", "Call the desk first.", "Harbor Online is down")
    assert list(asked(one, titled, family="entity_lookup")) == ["FRM-4711"]


def test_name_that_opens_a_sentence_in_many_documents_is_dropped() -> None:
    many = [document(f"{i}.md", "Harbor Online is down today.") for i in range(5)]
    one = document("one.md", "We call it Harbor Online, or FRM-4711.")
    assert "Harbor Online" not in asked(*many, one, family="entity_lookup")


def test_word_in_capitals_that_is_an_ordinary_word_elsewhere_is_dropped() -> None:
    many = [document(f"{i}.md", "Count it over again, please.") for i in range(5)]
    one = document("one.md", "Press OVER now, or FRM-4711.")
    assert "OVER" not in asked(*many, one, family="entity_lookup")


def test_every_document_that_holds_an_entity_is_judged() -> None:
    texts = {one.id: one.text.lower() for one in sample_documents()}
    for query in (query for query in sample_exam().queries if query.family == "entity_lookup"):
        name = query.text.lower()
        pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        holding = {chunk_id for chunk_id, text in texts.items() if name in text and pattern.search(text)}
        assert holding == {j.document for j in query.judgments}, query.text


def test_phrase_that_stands_twice_is_dropped() -> None:
    twice = [document(f"{i}.md", BODY) for i in range(2)]
    own = document("own.md", "Each zebra in the enclosure eats four kilos of hay a day.")
    assert {chunk_id for ids in asked(*twice, own, family="exact_phrase").values() for chunk_id in ids} == {"own.md"}


# ---------------------------------------------------------------- names as whole words


@each(
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
    one, other = document("a.md", "Please use FRM-0815 here."), document("b.md", text)
    corpus = ExamDocuments([one, other])
    assert holders(corpus, one, "FRM-0815") == ([one, other] if stands else [one])


def test_entities_that_begin_alike_or_lie_in_each_other_are_all_found() -> None:
    wanted = ["12 CFR 1020.310(b)", "12 CFR 1020", "New York Harbor", "New York", "York Harbor", "12 CFR 10", "CFR"]
    names = [document(f"{at}.md", entity) for at, entity in enumerate(wanted)]
    text = document("text.md", "under 12 CFR 1020.310(b) and 12 CFR 1020, New York Harbor and New York")
    missed = [one.text for one in names if text not in holders(ExamDocuments([one, text]), one, one.text)]
    assert missed == ["12 CFR 10"]


def test_name_that_is_cut_from_a_longer_word_is_not_asked() -> None:
    one = document("a.md", "The law is 12 U.S.C. 1790b, and the form is FRM-4711.")
    assert list(asked(one, family="entity_lookup")) == ["FRM-4711"]


def test_phrase_with_markup_inside_a_word_is_not_asked() -> None:
    text = "Each **ze**bra in the *enclo*sure eats four kilos of hay a day and sleeps at noon."
    own = document("own.md", "The teller counts every coin of the drawer before the vault opens.")
    found = asked(document("a.md", text), document("b.md", text), own, family="exact_phrase")
    assert {chunk_id for ids in found.values() for chunk_id in ids} == {"own.md"}
