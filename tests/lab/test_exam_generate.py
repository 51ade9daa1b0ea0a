"""Known-item questions: the same for the same seed, up to a cap, none twice."""

from __future__ import annotations

from collections import Counter

import pytest

from exam_helpers import BODY, document, few_documents, sample_exam
from surefind.base.errors import ExamError
from surefind.lab.exam.known_item import FAMILIES, generate
from surefind.lab.exam.overlap import content_terms

FEW_QUESTIONS = {"heading_paraphrase", "faq", "anchor_text", "alias"}
"""Families of which ten documents have less than seven questions."""


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
    assert {name for name, count in found.items() if count == 7} >= set(FAMILIES) - FEW_QUESTIONS
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
