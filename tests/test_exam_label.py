"""`surefind exam label`: a pool that every judge sees, agreement between judges, and the exam that comes of it."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from exam_helpers import surefind
from helpers import Home
from study_helpers import THINGS
from surefind.access import Access
from surefind.errors import DamagedError, ExamError
from surefind.exam.judging import Judging
from surefind.exam.labels import Labels, Pooled, PooledPassage, agreement, cohen, grade_of
from surefind.exam.questions import Questions
from surefind.exam.store import ExamStore

PAIR = ("--pipeline", "bm25", "--pipeline", "tfidf")
QUESTIONS = ("Who approves a loan?", "Where is the vault ledger kept?", "What does the teller count?")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = Home(tmp_path / "kb")
    for n, thing in enumerate(THINGS):
        home.write(f"docs/{thing}.md", f"# The {thing}\n\nRule {n}: Mia approves each {thing}; the teller counts it.\n")
    home.sync("docs")
    (tmp_path / "asked.txt").write_text("\n".join(QUESTIONS))
    assert surefind("exam", "collect", "gold", tmp_path / "asked.txt", kb=home.folder).code == 0
    return home.folder


def seen_by(folder: Path, judge: str, *more: str) -> list[dict[str, Any]]:
    shown = surefind("exam", "label", "gold", "--judge", judge, *PAIR, *more, "--json", kb=folder)
    assert shown.code == 0, shown.err
    found: list[dict[str, Any]] = shown.json["questions"]
    return found


def judged(folder: Path, judge: str, wanted: dict[str, set[str]]) -> Any:
    """Labels by file: the documents that a judge finds relevant to each question."""
    rows = []
    for one in seen_by(folder, judge):
        numbers = [
            n for n, passage in enumerate(one["passages"], 1) if Path(passage["document"]).stem in wanted[one["query"]]
        ]
        rows.append({"query": one["query"], "relevant": numbers})
    path = folder / f"{judge}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return surefind("exam", "label", "gold", "--judge", judge, "--labels", path, kb=folder)


def test_judges_see_the_same_passages_in_another_order(folder: Path) -> None:
    ann, bob = seen_by(folder, "ann"), seen_by(folder, "bob")
    assert [one["query"] for one in ann] == [one["query"] for one in bob] == list(QUESTIONS)
    for mine, theirs in zip(ann, bob, strict=True):
        documents = [[passage["document"] for passage in one["passages"]] for one in (mine, theirs)]
        assert sorted(documents[0]) == sorted(documents[1])
    assert max(len(one["passages"]) for one in ann) == 10
    orders = [[[p["document"] for p in one["passages"]] for one in shown] for shown in (ann, bob)]
    assert orders[0] != orders[1]
    assert orders[0] == [[p["document"] for p in one["passages"]] for one in seen_by(folder, "ann", "--hits", "3")]


def test_what_half_of_the_judges_marked_is_gold(folder: Path) -> None:
    first, second, third = QUESTIONS
    other = next(p for p in (Path(p["document"]).stem for p in seen_by(folder, "ann")[0]["passages"]) if p != "loan")
    judged(folder, "ann", {first: {"loan", other}, second: {"vault"}, third: set()})
    both = judged(folder, "bob", {first: {"loan"}, second: {"ledger"}, third: set()})
    assert both.code == 0, both.err
    assert "ann: 3 of 3 questions labelled." in both.out and "gold v" in both.out
    exam = ExamStore(folder / ".surefind" / "exams").load("gold")
    gold = {query.text: {Path(j.document).stem for j in query.judgments} for query in exam.queries}
    assert gold == {first: {"loan", other}, second: {"vault", "ledger"}}  # one of two is half; nothing for the third
    third_judge = judged(folder, "cat", {first: {"loan"}, second: {"vault"}, third: set()})
    assert third_judge.code == 0 and "ann and cat agree on" in third_judge.out
    again = ExamStore(folder / ".surefind" / "exams").load("gold")
    assert {q.text: {Path(j.document).stem for j in q.judgments} for q in again.queries} == {
        first: {"loan"},
        second: {"vault"},
    }
    assert surefind("bench", "--exam", "gold", "-p", "bm25", "--json", kb=folder).code == 0


def test_the_order_of_judges_gives_grades(folder: Path) -> None:
    """Ann: a, b, c; Bob: b, a. a has (3 + 2) / 2 points, b (2 + 3) / 2, c is Ann's third; halves are rounded up."""
    first = QUESTIONS[0]
    documents = [p["document"] for p in seen_by(folder, "ann")[0]["passages"]][:3]
    for judge, wanted in (("ann", documents), ("bob", documents[1::-1])):
        shown = [p["document"] for p in seen_by(folder, judge)[0]["passages"]]
        row = {"query": first, "relevant": [shown.index(one) + 1 for one in wanted]}
        (folder / "ranked.jsonl").write_text(json.dumps(row))
        assert (
            surefind("exam", "label", "gold", "--judge", judge, "--labels", folder / "ranked.jsonl", kb=folder).code
            == 0
        )
    (query,) = ExamStore(folder / ".surefind" / "exams").load("gold").queries
    grades = {judgment.document: judgment.grade for judgment in query.judgments}
    assert grades == {documents[0]: 3, documents[1]: 3, documents[2]: 1}
    assert grade_of(7, [[7, 1], [1, 7]]) == 3 and grade_of(7, [[1, 2, 3, 7]]) == 1 and grade_of(7, []) == 1


def test_labels_without_an_order_have_one_grade(folder: Path) -> None:
    with Home(folder).open() as kb:
        session = Judging(kb, "gold", "ann", Access.public())
        session.make_pool(["bm25", "tfidf"], 3, 4)
        session.mark(0, [2, 1], ranked=False)
        assert sorted(session.mine[QUESTIONS[0]]) == sorted(session.pool[0].order_for("ann")[:2])
        made = session.make_exam()
    assert made is not None and [judgment.grade for judgment in made.queries[0].judgments] == [1, 1]


def test_a_passage_from_outside_the_pool_is_gold(folder: Path) -> None:
    first = QUESTIONS[0]
    before = [p["document"] for p in seen_by(folder, "ann", "--hits", "2")[0]["passages"]]
    missing = next(f"{thing}.md" for thing in THINGS if f"{thing}.md" not in before)
    words = f"Mia approves each {missing.removesuffix('.md')}"
    row = {"query": first, "relevant": [{"document": missing, "text": words}, 1]}
    (folder / "added.jsonl").write_text(json.dumps(row))
    done = surefind("exam", "label", "gold", "--judge", "ann", "--labels", folder / "added.jsonl", kb=folder)
    assert done.code == 0, done.err
    assert "1 of 1 questions (100%) have a relevant passage from outside the pool." in done.out
    (query,) = ExamStore(folder / ".surefind" / "exams").load("gold").queries
    added = next(judgment for judgment in query.judgments if judgment.document == missing)
    assert added.quote == words and added.grade == 3
    later = seen_by(folder, "bob")[0]["passages"]  # a later judge sees it, after the others
    assert later[-1]["text"] == words and sorted(p["document"] for p in later[:-1]) == sorted(before)


@pytest.mark.parametrize(
    ("passage", "complaint"),
    [
        ({"document": "nowhere.md", "text": "x"}, "there is no document 'nowhere.md'"),
        ({"document": "loan.md", "text": "Nobody says this."}, "does not contain the passage"),
        ({"document": "loan.md", "text": " "}, "which words of 'loan.md'"),
        ({"document": "loan.md"}, "'text' is not in it"),
    ],
)
def test_a_passage_that_is_not_there_is_refused(folder: Path, passage: dict[str, str], complaint: str) -> None:
    seen_by(folder, "ann")
    (folder / "added.jsonl").write_text(json.dumps({"query": QUESTIONS[0], "relevant": [passage]}))
    done = surefind("exam", "label", "gold", "--judge", "ann", "--labels", folder / "added.jsonl", kb=folder)
    assert done.code == 2 and complaint in done.err


def test_nobody_adds_a_document_they_may_not_read(folder: Path) -> None:
    home = Home(folder)
    home.write("docs/secret.md", "---\nacl: [hr]\n---\n# Secret\n\nThe hushword is quagga.\n")
    home.sync("docs")
    with home.open() as kb:
        session = Judging(kb, "gold", "ann", Access.public())
        session.make_pool(["bm25", "tfidf"], 3, 4)
        with pytest.raises(ExamError, match="there is no document"):
            session.outside("secret.md", "The hushword is quagga.")
        found = Judging(kb, "gold", "cat", Access.of("hr"))
        assert found.add(0, found.outside("secret.md", "The hushword is quagga.")) == len(found.pool[0].passages)
        seen = Judging(kb, "gold", "bob", Access.public())
        assert len(seen.pool) == len(found.pool) - 1  # a question with a passage that Bob may not read


def test_kappa_by_hand() -> None:
    """Cohen's example: 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no. p_o = 35/50; p_e = .5 · .6 + .5 · .4; κ = 0.4."""
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    observed, kappa = cohen(pairs)
    assert observed == pytest.approx(0.7) and kappa == pytest.approx(0.4)
    assert cohen([(True, True)] * 3) == (1.0, None)
    assert cohen([(True, False), (False, True)]) == (0.0, -1.0)


def test_agreement_is_over_what_both_have_judged() -> None:
    passages = tuple(PooledPassage(f"{i}.md", 0, 5) for i in range(4))
    pool = [Pooled("one", passages), Pooled("two", passages)]
    labels = {"ann": {"one": [0, 1], "two": [0]}, "bob": {"one": [1, 0]}, "cat": {}}
    (pair,) = agreement(pool, labels)
    assert (pair.first, pair.second, pair.questions, pair.passages) == ("ann", "bob", 1, 4)
    assert (pair.observed, pair.kappa) == (1.0, 1.0)


def _flip(store: Questions, right: bytes, wrong: bytes) -> None:
    """Changes bytes of the file behind the store's back, as damage does."""
    whole = store.path.read_bytes()
    assert right in whole
    store.path.write_bytes(whole.replace(right, wrong))


def test_damaged_labels_are_named(tmp_path: Path) -> None:
    store = Questions(tmp_path)
    kept = Labels(store, "gold")
    kept.mark("ann", "one", [1])
    kept.mark("bob", "one", [0])
    kept.mark("bob", "one", None)
    assert kept.of("ann") == {"one": [1]} and list(kept.all()) == ["ann"]
    _flip(store, b"[1]", b"[2]")
    with pytest.raises(DamagedError, match=r"questions\.db is damaged: row 1 in the table labels"):
        kept.of("ann")


def test_a_label_at_a_terminal_can_be_taken_back(folder: Path) -> None:
    with Home(folder).open() as kb:
        session = Judging(kb, "gold", "ann", Access.public())
        session.make_pool(["bm25", "tfidf"], 3, 4)
        session.mark(0, [2, 1])
        assert session.done == 1 and session.passages(0)[0].marked
        session.unmark(0)
        assert session.done == 0 and session.next() == 0


def test_the_doctor_finds_damaged_labels(folder: Path) -> None:
    seen_by(folder, "ann")
    assert surefind("doctor", kb=folder).code == 0
    _flip(Questions(folder / ".surefind" / "exams"), b'"Who', b'"Why')
    broken = surefind("doctor", kb=folder)
    assert broken.code == 1 and "row 1 in the table pools does not match its checksum" in broken.out + broken.err


def test_changed_documents_end_the_pool(folder: Path) -> None:
    seen_by(folder, "ann")
    Home(folder).write("docs/new.md", "# New\n\nA new document.\n")
    assert surefind("sync", folder / "docs", kb=folder).code == 0
    refused = surefind("exam", "label", "gold", "--judge", "ann", "--json", kb=folder)
    assert refused.code == 2 and "The documents have changed since the pool of gold was made" in refused.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"query": "Unknown?", "relevant": [1]}', "not in the pool"),
        (json.dumps({"query": QUESTIONS[0], "relevant": [11]}), "a number from 1 to 10"),
        (json.dumps({"query": QUESTIONS[0]}), "'relevant'"),
        ("not JSON", "line 1"),
    ],
)
def test_bad_labels_are_named_and_nothing_is_stored(folder: Path, line: str, message: str) -> None:
    path = folder / "bad.jsonl"
    good = json.dumps({"query": QUESTIONS[1], "relevant": [1]})
    path.write_text(f"{line}\n{good}\n")
    seen_by(folder, "ann")
    refused = surefind("exam", "label", "gold", "--judge", "ann", "--labels", path, kb=folder)
    assert refused.code == 2 and message in refused.err
    assert ExamStore(folder / ".surefind" / "exams").labels("gold").of("ann") == {}


def test_files_that_are_no_labels_are_explained(folder: Path, tmp_path: Path) -> None:
    seen_by(folder, "ann")  # makes the pool
    (tmp_path / "photo.jsonl").write_bytes(b"ab\xfe")
    (tmp_path / "list.jsonl").write_text("[1, 2]\n")
    for name, message in (
        ("none.jsonl", "none.jsonl cannot be read (No such file or directory). Check the path."),
        ("photo.jsonl", "photo.jsonl is not UTF-8 text (byte 3). Save it as UTF-8."),
        ("list.jsonl", "line 1: it is not an object with `query` and `relevant`"),
    ):
        wrong = surefind("exam", "label", "gold", "--judge", "ann", "--labels", tmp_path / name, kb=folder)
        assert wrong.code == 2 and message in wrong.err


def test_wrong_calls_are_explained(folder: Path) -> None:
    for words, message in (
        (("gold", "--judge", "../ann", "--json"), "A judge cannot be called '../ann'"),
        (("none", "--judge", "ann", "--json"), "There are no questions to label"),
        (("gold", "--judge", "ann", "--hits", "1", "--json"), "--hits at least 2"),
    ):
        wrong = surefind("exam", "label", *words, kb=folder)
        assert wrong.code == 2 and message in wrong.err


def test_labels_at_a_terminal(folder: Path) -> None:
    seen_by(folder, "ann")
    screen, theirs = pty.openpty()
    command = [sys.executable, "-m", "surefind", "exam", "label", "gold", "--judge", "ann", "--kb", str(folder)]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "dumb"})
    os.close(theirs)
    shown = _until(screen, "another passage: ")
    assert QUESTIONS[0] in shown and "1 of 3" in shown and "bm25" not in shown
    os.write(screen, b"99\n")
    assert "Cannot read '99'" in _until(screen, "another passage: ")
    os.write(screen, b"+ nowhere.md: anything\n")
    assert "No passage was added: there is no document 'nowhere.md'" in " ".join(
        _until(screen, "another passage: ").split()
    )
    os.write(screen, b"+ loan.md: Mia approves each loan\n")
    assert "Mia approves each loan" in _until(screen, "another passage: ")
    os.write(screen, b"2 1\n")
    assert QUESTIONS[1] in _until(screen, "another passage: ")
    os.write(screen, b"q\n")
    assert "ann: 1 of 3 questions labelled." in _until(screen, "bench --exam gold")
    assert process.wait(60) == 0
    os.close(screen)
    (marks,) = ExamStore(folder / ".surefind" / "exams").labels("gold").of("ann").values()
    pool = ExamStore(folder / ".surefind" / "exams").labels("gold").pool()
    order = pool[0].order_for("ann")
    assert marks == [order[1], order[0]]
    assert (pool[0].passages[-1].document, pool[0].passages[-1].added) == ("loan.md", "ann")


def _until(screen: int, mark: str) -> str:
    """The screen's text up to `mark`."""
    text, last = "", time.monotonic() + 60
    while mark not in text:
        ready, _, _ = select.select([screen], [], [], max(0, last - time.monotonic()))
        assert ready, f"{mark!r} did not come: {text}"
        text += os.read(screen, 65536).decode("utf-8", "replace")
    return text
