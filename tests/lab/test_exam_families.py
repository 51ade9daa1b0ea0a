"""The families that need special material: links, questions and answers, aliases."""

from __future__ import annotations

from typing import Any

from cases import each
from exam_helpers import BODY, document, few_documents
from surefind.base.errors import ExamError
from surefind.base.text.words import token_spans
from surefind.base.types import Document
from surefind.lab.exam.known_item import generate


def asked(*documents: Document, family: str) -> dict[str, tuple[str, str]]:
    """What a family asks, and the document and text that answer."""
    texts = {one.id: one.text for one in documents}
    try:
        found = generate(documents, families=[family]).queries
    except ExamError:
        return {}
    return {
        q.text: (q.judgments[0].document, texts[q.judgments[0].document][q.judgments[0].start : q.judgments[0].end])
        for q in found
    }


# ---------------------------------------------------------------- links


TARGET = document(
    "ops/eod.md", f"# End of day\n\n{BODY}\n## Late files\n\nCall the desk at once when a file is late.\n"
)


@each("link", ["../ops/eod.md", "/ops/eod.html", "../ops/eod", "../ops/eod.md 'a title'"])
def test_words_of_a_link_ask_for_its_target(link: str) -> None:
    source = document("faq/a.md", f"Please read [what to do when the batch breaks]({link}) first.")
    assert asked(source, TARGET, family="anchor_text") == {
        "what to do when the batch breaks": ("ops/eod.md", TARGET.text.strip())
    }


def test_link_to_a_section_asks_for_the_section() -> None:
    source = document("faq/a.md", "Please read [when a batch arrives after hours](../ops/eod.md#late-files) first.")
    ((_, gold),) = asked(source, TARGET, family="anchor_text").values()
    assert gold.startswith("## Late files")


def test_link_to_a_section_asks_for_the_sections_below_it_too() -> None:
    nested = document(
        "ops/eod.md", f"# Batch\n\n## Late files\n\n{BODY}\n### By mail\n\n{BODY}\n## Early files\n\n{BODY}"
    )
    source = document("faq/a.md", "Please read [when a batch arrives after hours](../ops/eod.md#late-files) first.")
    ((_, gold),) = asked(source, nested, family="anchor_text").values()
    assert gold.startswith("## Late files") and "### By mail" in gold and "Early" not in gold


@each(
    "text",
    [
        "[see the overview](../ops/eod.md)",
        "[the nightly batch](https://example.org/ops/eod.md)",
        "![the nightly batch](../ops/eod.md)",
        "[the nightly batch](#late-files)",
        "[the nightly batch](../ops/missing.md)",
        "[ops/eod.md nightly batch](../ops/eod.md)",
        "[the {{ nightly }} batch](../ops/eod.md)",
        "[the #{nightly} batch](../ops/eod.md)",
        "[end-of-day.md](../ops/eod.md)",
        "[`10.12.x`](../ops/eod.md)",
    ],
)
def test_link_without_a_use_is_not_asked(text: str) -> None:
    assert asked(document("faq/a.md", text), TARGET, family="anchor_text") == {}


def test_words_that_lead_to_two_documents_are_dropped() -> None:
    other = document("ops/b.md", BODY)
    sources = [document(f"faq/{n}.md", f"Read [the nightly batch](../ops/{n}.md).") for n in ("eod", "b")]
    assert asked(*sources, TARGET, other, family="anchor_text") == {}


# ---------------------------------------------------------------- questions and answers


def test_heading_that_asks_is_answered_by_its_section() -> None:
    one = document("a.md", f"# Cards\n\n## Can a member keep the old card?\n\n{BODY}")
    assert asked(one, family="faq") == {
        "Can a member keep the old card?": ("a.md", f"## Can a member keep the old card?\n\n{BODY.strip()}")
    }


@each(
    "text",
    [
        "Q: Can a member keep the old card?\nA: No, it is shredded.\n\nOther text.",
        "**Q:** Can a member keep the old card?\n\n**A:** No, it is shredded.\n\nOther text.",
        "Question 1: Can a member keep the old card?\nAnswer: No, it is shredded.\nQ: And the new one then?\nA: Yes.",
    ],
)
def test_question_block_is_answered_by_its_answer(text: str) -> None:
    document_, gold = asked(document("a.md", text), family="faq")["Can a member keep the old card?"]
    assert document_ == "a.md" and gold.endswith("No, it is shredded.")


def test_question_of_two_documents_is_dropped() -> None:
    both = [document(f"{i}.md", f"# Who signs the sheet?\n\n{BODY}") for i in range(2)]
    assert asked(*both, family="faq") == {}


# ---------------------------------------------------------------- aliases


def named(key: str, **metadata: Any) -> Document:
    return Document(key, BODY, "End of day", metadata=metadata)


@each("given", [["nightly batch"], "nightly batch", ["nightly batch", "End of Day", "/old/path", 7]])
def test_alias_asks_for_its_document(given: Any) -> None:
    assert asked(named("a.md", aliases=given), family="alias") == {"nightly batch": ("a.md", BODY.strip())}


def test_tags_are_not_aliases() -> None:
    assert asked(named("a.md", tags=["nightly batch"]), family="alias") == {}


def test_alias_of_two_documents_is_dropped() -> None:
    assert asked(named("a.md", aliases=["batch"]), named("b.md", aliases=["Batch"]), family="alias") == {}


# ---------------------------------------------------------------- chunk_opening


def test_chunk_opening_asks_for_the_first_whole_sentence_of_each_window() -> None:
    sentences = [f"The clerk files the yellow form number {i} before the desk closes for the day." for i in range(60)]
    text = "# Forms\n\n" + " ".join(sentences)
    exam = generate([document("a.md", text)], families=["chunk_opening"])
    asked = {query.text for query in exam.queries}
    tokens = token_spans(text)
    windows = [tokens[at][0] for at in (0, 450)]
    expected = {next(s for s in sentences if text.index(s) >= start).rstrip(".") for start in windows}
    assert expected <= asked
    assert {(j.document, text[j.start : j.end][:7]) for query in exam.queries for j in query.judgments} == {
        ("a.md", "# Forms")
    }


def test_chunk_opening_is_written_on_request_only() -> None:
    assert "chunk_opening" not in generate(few_documents()).families()
