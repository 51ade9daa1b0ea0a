"""Deleting an exam: what goes, what stays, what is asked and refused."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from exam_helpers import query, surefind
from helpers import Home
from report_helpers import row, save_report
from surefind.lab.bench.report import ExamFacts
from surefind.lab.exam.model import Exam, Judgment
from surefind.lab.exam.store import ExamStore


@pytest.fixture
def store(home: Home) -> ExamStore:
    made = ExamStore(home.folder / ".surefind" / "exams")
    for text in ("cash", "vault"):
        made.save(Exam("mine", (query("q", text, Judgment("a.md")),)))
    made.save(Exam("theirs", (query("q", "cash", Judgment("a.md")),)))
    return made


def labels(store: ExamStore) -> list[str]:
    return [f"{exam.name}@{exam.version}" for exam in store.all()]


def write_report(folder: Path, name: str, version: int) -> None:
    exam = ExamFacts(name=name, version=version, queries=0, families={})
    save_report(folder.parents[2], folder.name, row("x"), exam=exam)


def test_every_version_of_an_exam_goes(home: Home, store: ExamStore) -> None:
    ran = surefind("exam", "delete", "mine", "--yes", kb=home.folder)
    assert (ran.code, ran.out) == (0, "Deleted mine@1, mine@2.\n")
    assert labels(store) == ["theirs@1"] and store.names() == ["theirs"]


def test_one_version_goes(home: Home, store: ExamStore) -> None:
    assert surefind("exam", "delete", "mine@1", "--yes", kb=home.folder).code == 0
    assert labels(store) == ["mine@2", "theirs@1"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mnie", "There is no exam called 'mnie'. Did you mean mine?"),
        ("mine@7", "The exam 'mine' has no version 7; versions: 1, 2."),
        ("mine@x", "has no version x"),
        ("../exams/mine", "There is no exam called"),
        ("", "There is no exam called"),
    ],
)
def test_what_is_not_there_is_refused(home: Home, store: ExamStore, name: str, says: str) -> None:
    ran = surefind("exam", "delete", name, "--yes", kb=home.folder)
    assert ran.code == 2 and says in ran.err
    assert len(labels(store)) == 3


def test_reports_that_used_it_are_counted_and_stay(home: Home, store: ExamStore) -> None:
    reports = home.folder / ".surefind" / "reports"
    write_report(reports / "a", "mine", 2)
    write_report(reports / "b", "mine", 1)
    write_report(reports / "c", "theirs", 1)
    (reports / "d").mkdir()
    (reports / "d" / "report.json").write_text("{", encoding="utf-8")
    ran = surefind("exam", "delete", "mine@2", "--yes", kb=home.folder)
    assert "1 report in .surefind/reports used this exam" in ran.out
    found = surefind("exam", "delete", "mine", "--yes", "--json", kb=home.folder).json
    damaged = [str(reports / "d" / "report.json")]
    assert found == {"deleted": ["mine@1"], "reports": [str(reports / "b")], "damaged_reports": damaged}
    assert (reports / "a" / "report.json").exists()


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_script_must_say_yes(home: Home, store: ExamStore, options: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "surefind", "exam", "delete", "mine", *options, "--kb", str(home.folder)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "This deletes mine@1, mine@2 for good. Add --yes to continue." in done.stderr
    assert len(labels(store)) == 3


@pytest.mark.parametrize(("answer", "code", "left"), [(b"y\n", 0, 1), (b"n\n", 1, 3)])
def test_at_a_terminal_it_asks(home: Home, store: ExamStore, answer: bytes, code: int, left: int) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "surefind", "exam", "delete", "mine", "--kb", str(home.folder)]
    try:
        os.write(ours, answer)
        done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=False, timeout=300)
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, len(labels(store))) == (code, left)
    assert "Delete mine@1, mine@2 for good?" in done.stderr


def test_an_exam_that_cannot_be_read_can_be_deleted(home: Home, store: ExamStore) -> None:
    (store.folder / "theirs" / "v001.jsonl").write_text("broken", encoding="utf-8")
    assert surefind("exam", "delete", "theirs", "--yes", kb=home.folder).code == 0
