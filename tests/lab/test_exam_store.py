"""Exams as objects of the knowledge base: versions, fingerprints, and finding moved passages again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cases import each
from exam_helpers import query, sample_exam
from surefind.base.errors import ExamError
from surefind.lab.exam.model import Exam, Judgment, query_from_json, query_to_json, relocate
from surefind.lab.exam.store import ExamStore

ONE = Exam("mine", (query("1", "first?", Judgment("a.md", 0, 5, 2, "alpha")),), origin="by hand", corpus="c0ffee")
TWO = Exam("mine", (*ONE.queries, query("2", "second?", Judgment("b.md"))))


@pytest.fixture
def store(tmp_path: Path) -> ExamStore:
    return ExamStore(tmp_path / "exams")


# ---------------------------------------------------------------- versions


def test_first_exam_of_a_name_is_version_1(store: ExamStore) -> None:
    assert store.save(ONE).version == 1


def test_exam_comes_back_as_it_was_saved(store: ExamStore) -> None:
    saved = store.save(ONE)
    assert store.load("mine") == saved


def test_other_questions_are_the_next_version(store: ExamStore) -> None:
    store.save(ONE)
    assert store.save(TWO).version == 2


def test_same_questions_again_are_the_version_that_is_there(store: ExamStore) -> None:
    store.save(ONE)
    assert store.save(replace(ONE, origin="again")).version == 1


def test_same_questions_of_another_generator_are_the_same_version(store: ExamStore) -> None:
    store.save(replace(ONE, generator=1))
    assert store.save(replace(ONE, generator=2, corpus="beef")) == store.load("mine")
    assert (store.load("mine").version, store.load("mine").generator, store.load("mine").corpus) == (1, 2, "beef")


def test_older_version_is_loaded_by_its_number(store: ExamStore) -> None:
    store.save(ONE)
    store.save(TWO)
    assert len(store.load("mine@1").queries) == 1


def test_name_alone_loads_the_newest(store: ExamStore) -> None:
    store.save(ONE)
    store.save(TWO)
    assert store.load("mine").version == 2


def test_all_versions_are_listed(store: ExamStore) -> None:
    store.save(ONE)
    store.save(TWO)
    assert [exam.label for exam in store.all()] == ["mine v1", "mine v2"]


def test_unknown_exam_lists_those_that_are_there(store: ExamStore) -> None:
    store.save(ONE)
    with pytest.raises(ExamError, match=r"no exam called 'mines'\. Did you mean mine\? Choices: mine\."):
        store.load("mines")


def test_unknown_exam_among_none_says_how_to_write_one(store: ExamStore) -> None:
    with pytest.raises(ExamError, match="surefind exam generate"):
        store.load("mine")


def test_unknown_version_lists_the_versions(store: ExamStore) -> None:
    store.save(ONE)
    for version in ("7", "x", "-1", "0"):
        with pytest.raises(ExamError, match=rf"has no version .*{version}.*; versions: 1\."):
            store.load(f"mine@{version}")


@pytest.mark.parametrize("name", ["", "../up", "a b", ".hidden", "a/b", "a@2"])
def test_name_that_is_no_file_name_is_refused(store: ExamStore, name: str) -> None:
    with pytest.raises(ExamError, match="An exam cannot be called"):
        store.save(replace(ONE, name=name))


def test_damaged_exam_file_is_named(store: ExamStore) -> None:
    store.save(ONE)
    path = store.folder / "mine" / "v001.jsonl"
    path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    with pytest.raises(ExamError, match=r"v001\.jsonl is damaged or was edited .* surefind exam import COPY"):
        store.load("mine")


def test_exam_file_without_a_header_is_named(store: ExamStore) -> None:
    store.save(ONE)
    (store.folder / "mine" / "v001.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(ExamError, match=r"v001\.jsonl is damaged or was edited"):
        store.load("mine")


# ---------------------------------------------------------------- fingerprints


def test_fingerprint_does_not_depend_on_name_origin_or_version() -> None:
    assert replace(ONE, name="other", origin="", version=9).fingerprint == ONE.fingerprint


@each(
    "other",
    [
        query("1", "first!", Judgment("a.md", 0, 5, 2, "alpha")),
        query("9", "first?", Judgment("a.md", 0, 5, 2, "alpha")),
        query("1", "first?", Judgment("a.md", 0, 5, 1, "alpha")),
        query("1", "first?", Judgment("a.md", 0, 6, 2, "alpha")),
        query("1", "first?", Judgment("b.md", 0, 5, 2, "alpha")),
    ],
)
def test_fingerprint_changes_with_questions_and_judgments(other: object) -> None:
    assert Exam("mine", (other,)).fingerprint != ONE.fingerprint  # type: ignore[arg-type]


def test_query_reads_back_from_its_json() -> None:
    assert [query_from_json(query_to_json(query)).judgments for query in sample_exam().queries] == [
        query.judgments for query in sample_exam().queries
    ]


# ---------------------------------------------------------------- relocation

TEXT = "Intro.\n\nThe deadline is fifteen days. More follows here."
START = TEXT.index("The deadline")
EXAM = Exam("e", (query("1", "?", Judgment("a.md", START, START + 29, quote="The deadline is fifteen days.")),))


def gold(text: str) -> str:
    moved, _ = relocate(EXAM, {"a.md": text})
    (j,) = moved.queries[0].judgments
    return text[j.start : j.end]


def test_exam_of_unchanged_documents_stays_as_it_is() -> None:
    assert relocate(EXAM, {"a.md": TEXT}) == (EXAM, 0)


def test_passage_is_found_after_an_edit_before_it() -> None:
    assert gold("A new paragraph.\n\n" + TEXT) == "The deadline is fifteen days."


def test_passage_is_found_after_a_cut_before_it() -> None:
    assert gold(TEXT.removeprefix("Intro.\n\n")) == "The deadline is fifteen days."


def test_edit_behind_the_passage_does_not_move_it() -> None:
    assert gold(TEXT + " And more.") == "The deadline is fifteen days."


def test_question_whose_passage_is_gone_is_left_out_and_counted() -> None:
    moved, dropped = relocate(EXAM, {"a.md": "Intro.\n\nNothing left."})
    assert (moved.queries, dropped) == ((), 1)


def test_question_whose_document_is_gone_is_left_out_and_counted() -> None:
    moved, dropped = relocate(EXAM, {"b.md": TEXT})
    assert (moved.queries, dropped) == ((), 1)


def test_moved_passage_that_stands_twice_is_not_guessed() -> None:
    twice = "New. The deadline is fifteen days. Again: The deadline is fifteen days."
    assert relocate(EXAM, {"a.md": twice})[1] == 1


def test_question_keeps_the_passages_that_are_left() -> None:
    both = replace(EXAM.queries[0], judgments=(*EXAM.queries[0].judgments, Judgment("b.md", 0, 3, quote="gone")))
    moved, dropped = relocate(Exam("e", (both,)), {"a.md": TEXT, "b.md": "else"})
    assert ([j.document for j in moved.queries[0].judgments], dropped) == (["a.md"], 0)


def test_question_with_only_non_relevant_passages_left_is_left_out() -> None:
    judged = query("1", "?", Judgment("a.md", grade=0), Judgment("b.md", grade=1))
    assert relocate(Exam("e", (judged,)), {"a.md": TEXT})[1] == 1


def test_whole_document_judgments_survive_any_edit() -> None:
    exam = Exam("e", (query("1", "?", Judgment("a.md")),))
    assert relocate(exam, {"a.md": "all new"}) == (exam, 0)
