"""How the work of writing questions grows with the documents: no squares, and no text is parsed in vain or twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from cases import each
from exam_helpers import BODY, document, few_documents, sample_documents
from helpers import times_slower
from surefind.base.text.blocks import sections
from surefind.base.types import Document
from surefind.engine.analyze.english import English
from surefind.lab.exam import _documents
from surefind.lab.exam._documents import ExamDocuments, headings_of, possible_headings
from surefind.lab.exam.known_item import EVERY, candidates, generate
from surefind.lab.exam.overlap import readable

ALL = 1_000_000


def with_own_names(count: int) -> list[Document]:
    """Documents of which each has a form and a heading of its own, in words that all of them share."""
    return [
        document(f"{i:05}.md", f"# Overview of form {i}\n\nPlease use FRM-{i:05} in case {i} whenever one is needed.\n")
        for i in range(count)
    ]


def all_candidates(family: str, documents: Sequence[Document]) -> Callable[[], object]:
    """Writes every question of a family. The documents are parsed beforehand: parsing is not what is timed."""
    known = {one.id: sections(one) for one in documents}

    def work() -> object:
        corpus = ExamDocuments(documents)
        corpus._sections.update(known)
        return list(candidates(family, corpus, ALL))

    return work


@pytest.mark.parametrize("family", EVERY)
@pytest.mark.growth
def test_time_grows_with_the_documents_and_not_with_their_square(family: str) -> None:
    many, few = (all_candidates(family, with_own_names(count)) for count in (3_200, 200))
    assert times_slower(many, few, enough=50) <= 50  # the square would be 256


def test_every_word_is_analysed_once_however_many_phrases_it_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    analysed: Counter[str] = Counter()
    of_token = English.terms
    monkeypatch.setattr(English, "terms", lambda self, token: (analysed.update([token]), of_token(self, token))[1])
    words = [f"zyx{chr(97 + i)}wvut" for i in range(20)]  # of no other test: what was analysed before is known
    text = " ".join(" ".join(words[i::7] + words[i::3]).capitalize() + "." for i in range(3))
    assert list(candidates("exact_phrase", ExamDocuments([document("a.md", text)]), ALL))
    assert max(analysed[word] for word in words) == 1


@pytest.mark.growth
def test_time_of_names_grows_with_a_line_and_not_with_its_square() -> None:
    lines = (" ".join(f"Please use FRM-{i:05} here." for i in range(count)) for count in (1_600, 100))
    many, few = (all_candidates("entity_lookup", [document("a.md", line)]) for line in lines)
    assert times_slower(many, few, enough=50) <= 50  # the square would be 256


@pytest.mark.parametrize("family", ["heading_direct", "first_sentence", "exact_phrase"])
@pytest.mark.growth
def test_time_grows_with_the_sections_of_a_document_and_not_with_their_square(family: str) -> None:
    def work(count: int) -> Callable[[], object]:
        parts = (
            f"## Release number {i}\n\nThe batch {i} is ready for all tellers of the branch.\n" for i in range(count)
        )
        return all_candidates(family, [document("a.md", "\n".join(parts))])

    assert times_slower(work(3_200), work(200), enough=50) <= 50  # the square would be 256


# ---------------------------------------------------------------- what is parsed


def test_few_documents_of_many_are_parsed_and_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: Counter[str] = Counter()
    monkeypatch.setattr(_documents, "sections", lambda one: (parsed.update([one.id]), sections(one))[1])
    exam = generate(with_own_names(500), per_family=5)
    assert len(exam.queries) > 15
    assert max(parsed.values()) == 1 and len(parsed) < 100


def test_family_gives_up_after_some_drafts() -> None:
    copies = [
        document(f"{i:03}.md", f"# Wire cutoff times\n\n{BODY}\n## Vault alarm rules\n\n{BODY}") for i in range(20)
    ]
    own = document("own.md", f"# Teller drawer limits\n\n{BODY}")
    corpus = ExamDocuments([*copies, own])
    assert [one.text for one in candidates("heading_direct", corpus, ALL)] == ["Teller drawer limits"]
    before = next(at for at in range(1, 50) if list(candidates("heading_direct", corpus, at)))
    assert before > 1 and not list(candidates("heading_direct", corpus, before - 1))


def test_edit_of_one_document_leaves_the_questions_about_the_others() -> None:
    def about_others(documents: Sequence[Document]) -> list[str]:
        found = generate(documents, per_family=6, families=["heading_direct"]).queries
        return [query.text for query in found if query.judgments[0].document != few_documents()[0].id]

    first, *others = few_documents()
    edited = Document(
        first.id, first.text + "\n\nOne more sentence for the staff.\n", first.title, first.format, first.metadata
    )
    assert about_others([edited, *others]) == about_others([first, *others]) != []


TRICKY = (
    f"Wire cutoff times\n=================\n\n{BODY}\nVault alarm\nand more\n---\n\n{BODY}",
    f"# 1. **Wire** _cutoff_ `times` #\r\n\r\n{BODY}\r\nVault alarm\r\n---\r\n{BODY}",
    f"   ### Step 2: [Wire](a.md) <b>cut</b>off {{#id}}\n{BODY}\n#\tVault alarm ##\n{BODY}",
    f"# Wire *cut*off\r{BODY}\r## Vault alarm\r{BODY}",
    f"> # Quoted\n\n```sh\n# no heading\n```\n\n- a\n\n  # in a list\n\n{BODY}\nTable 3: Wire times\n\n| a |\n|---|\n",
    f"a\n===\nb\n---\n{BODY}\n\n\n---\n\n{BODY}\nc\n  \nd\n-\n{BODY}",
    f"# {{{{ tag }}}} Wire\n\n{BODY}\n<!--\n# Hidden heading\n-->\n# 東京 の 手順\n\n{BODY}",
)


@each("text", [*TRICKY, *(one.text for one in sample_documents())])
def test_every_heading_is_among_the_possible_ones(text: str) -> None:
    one = document("a.md", text)
    found = {heading.text for heading in headings_of(one, sections(one), readable(one.text))}
    assert found and found <= set(possible_headings(one))
