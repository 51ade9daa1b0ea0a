"""Paraphrases: natural questions in other words, about the same thing."""

from __future__ import annotations

from cases import each
from exam_helpers import BODY, document, few_documents, sample_exam
from surefind.lab.exam._paraphrase import FORMS, Place, gerund, gerunds, lexicon, paraphrase
from surefind.lab.exam.known_item import generate
from surefind.lab.exam.model import ExamQuery
from surefind.lab.exam.overlap import terms

PLACES: tuple[Place, ...] = ("verbs", "nouns", "adjectives", "terms", "phrases")


def paraphrases() -> list[ExamQuery]:
    return [query for query in sample_exam().queries if query.family == "heading_paraphrase"]


def forms(kind: str, *subjects: str) -> set[str]:
    return {form.format(subject) for form in FORMS[kind] for subject in subjects}


# ---------------------------------------------------------------- wording


@each(
    ("heading", "kind", "subjects"),
    [
        ("Delete the CUBASE user", "instruction", ("remove the CUBASE user", "get rid of the CUBASE user")),
        ("Deleting the CUBASE user", "instruction", ("remove the CUBASE user", "get rid of the CUBASE user")),
        ("How to delete the CUBASE user", "instruction", ("remove the CUBASE user", "get rid of the CUBASE user")),
        ("Setting up the gateway", "instruction", ("configure the gateway",)),
        ("Install gds-cli (optional)", "instruction", ("set up gds-cli",)),
        ("Verify the gateway is running", "instruction", ("make sure that the gateway is running",)),
        (
            "Verify the Gateway Certificate",
            "instruction",
            ("check the gateway certificate", "confirm the gateway certificate"),
        ),
        ("SOP-208 Annual escrow analysis", "subject", ("yearly escrow analysis",)),
        ("Annual review calendar", "subject", ("the yearly review calendar",)),
        ("Managing social media", "instruction", ("look after social networks", "administer social networks")),
        ("Escrow refunds after payoff", "subject", ("escrow reimbursements after payoff",)),
        ("If the job produces an incorrect rate", "condition", ("the job produces a wrong rate",)),
    ],
)
def test_heading_becomes_a_question_that_suits_it(heading: str, kind: str, subjects: tuple[str, ...]) -> None:
    asked = {paraphrase(heading, str(salt)) for salt in range(40)}
    assert asked and asked <= forms(kind, *subjects)


@each(
    "heading",
    [
        "Mid-year progress review",  # a part of a compound stays
        "Induction drag",
        "Older npm versions",  # elderly people, but no elderly versions
        "Social media accounts",
        "Fee schedule",
        "Use of force",  # a noun, though "use" is also a verb
        "Publishing API vs Content Store",
        "Zyxo Qwertz",
        "Confidence and deadlines",  # of what?
        "Loans, cards and fees",  # punctuation inside
        "CTR: the deadline",
        "Notice starts the deadline if nobody is there",
        "Only one app should run at once",
        "Delete and archive the account",
    ],
)
def test_heading_that_cannot_be_reworded_safely_is_left_out(heading: str) -> None:
    assert {paraphrase(heading, str(salt)) for salt in range(10)} == {""}


def test_names_stay_as_they_are() -> None:
    assert "CUBGW01 records from Pelican" in paraphrase("Delete CUBGW01 records from Pelican", "42")


def test_question_that_a_heading_asks_stays_a_question() -> None:
    assert (
        paraphrase("How does a buddy differ from a line manager?", "1") == "how does a buddy differ from a supervisor?"
    )


def test_paraphrase_depends_on_the_salt_alone() -> None:
    assert paraphrase("Delete the account", "1") == paraphrase("Delete the account", "1") != ""


def test_every_paraphrase_drops_a_word_of_its_heading() -> None:
    for query in paraphrases():
        heading = set(terms(query.metadata["source"]))
        assert len(heading & set(terms(query.text))) / len(heading) < 1, query


def test_no_paraphrase_only_adds_what_is() -> None:
    for query in paraphrases():
        assert query.metadata["source"].lower() not in query.text.lower(), query


# ---------------------------------------------------------------- gold


def test_paraphrase_has_the_gold_of_its_heading() -> None:
    exam = generate(few_documents(), families=["heading_direct", "heading_paraphrase"])
    golds = {query.text: query.judgments for query in exam.queries if query.family == "heading_direct"}
    reworded = [query for query in exam.queries if query.family == "heading_paraphrase"]
    assert reworded and all(query.judgments == golds[query.metadata["source"]] for query in reworded)


def test_question_that_points_at_no_document_is_left_out() -> None:
    many = [document(f"{i}.md", f"# Wire desk {i}\n\nThe alert of the teller. {BODY}") for i in range(40)]
    one = document("one.md", f"# Checks\n\n## Verify the alert\n\n{BODY}\n## Verify the zebra\n\n{BODY}")
    asked = [query.text for query in generate([*many, one], families=["heading_paraphrase"]).queries]
    assert len(asked) == 1 and "zebra" in asked[0]


@each(
    "heading",
    [
        "Upgrade practices for generated configuration",  # a noun, not an instruction
        "configure complains about a failed test program",  # the name of a command
        "Run the migration afterwards",  # after what?
        "Using the server to allocate slots",  # about allocating
    ],
)
def test_heading_that_would_be_misread_is_left_out(heading: str) -> None:
    assert {paraphrase(heading, str(salt)) for salt in range(20)} == {""}


def test_names_in_a_title_are_those_of_the_text() -> None:
    text = "On such systems Apache is packaged. The server reads its files."
    asked = {paraphrase("Configuring Apache Servers", str(salt), text) for salt in range(20)}
    assert all("Apache servers" in question for question in asked)


def test_section_of_links_is_left_out() -> None:
    link = "See [the page about revoking zebra badges](https://example.org/zebra).\n"
    for body, count in ((link, 0), (link + BODY, 1)):
        documents = [document("a.md", f"# Badges\n\n## Revoke the zebra badge\n\n{body}\n## Other\n\n{BODY}")]
        found = generate(documents, families=["heading_paraphrase", "first_sentence"]).queries
        assert sum(query.family == "heading_paraphrase" for query in found) == count


# ---------------------------------------------------------------- lexicon


@each("place", PLACES)
def test_lexicon_offers_no_expression_for_itself(place: Place) -> None:
    assert [expression for expression, others in lexicon(place).items() if expression in others or not others] == []


@each(
    ("verb", "expected"),
    [("delete", "deleting"), ("set up", "setting up"), ("run", "running"), ("see", "seeing"), ("deploy", "deploying")],
)
def test_gerund_of_a_verb(verb: str, expected: str) -> None:
    assert gerund(verb) == expected


def test_every_gerund_leads_back_to_its_verb() -> None:
    assert all(gerund(verb) == form for form, verb in gerunds().items())
