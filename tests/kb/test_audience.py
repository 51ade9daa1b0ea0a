"""Reports and exams quote documents: restricted ones are left out without --as, and reports name their audience."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers import WORDS, Home
from surefind.doors.cli import app

SECRET = "Project Falcon"


@pytest.fixture
def office(tmp_path: Path) -> Home:
    home = Home(tmp_path, WORDS + '\n[[access]]\npath = "hr/**"\ngroups = ["hr"]\n')
    for i, word in enumerate(("wire", "teller", "mortgage", "ledger")):
        home.write(
            f"docs/{word}.md", f"# The {word} desk\n\nThe {word} desk of branch {i} closes at {i + 4} in winter.\n"
        )
    home.write(
        "docs/board.md", f"---\nacl: [board]\n---\n# The {SECRET} plan\n\n{SECRET} moves the branch to Lisbon in May.\n"
    )
    home.write("docs/hr/pay.md", "# The Condor bonus\n\nThe Condor bonus of every teller doubles in the year 2031.\n")
    home.sync("docs")
    return home


def run(home: Home, *arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments, "--kb", str(home.folder)])
    assert result.exit_code == 0, result.output
    return result.output


def quoted(folder: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("groups", "board", "hr"),
    [((), False, False), (("board",), True, False), (("board", "hr"), True, True), (("*",), True, True)],
)
def test_exam_is_written_from_the_documents_of_its_audience(
    office: Home, groups: tuple[str, ...], board: bool, hr: bool
) -> None:
    run(office, "exam", "generate", *(word for group in groups for word in ("--as", group)))
    text = quoted(office.folder / ".surefind" / "exams")
    assert (SECRET in text, "Condor" in text) == (board, hr)
    origin = json.loads(text.partition("\n")[0])["origin"]
    assert origin.endswith(
        {2: "without 2 restricted documents", 1: "without 1 restricted documents"}.get(2 - board - hr, "")
    )


def test_report_quotes_only_what_its_audience_may_read(office: Home, tmp_path: Path) -> None:
    shown = run(office, "bench", "-p", "words", "--out", str(tmp_path / "open"))
    text = quoted(tmp_path / "open")
    assert SECRET not in text and "Condor" not in text
    assert "Audience: everybody. 2 restricted documents are left out" in shown
    assert "Audience: everybody. 2 restricted documents are left out" in (tmp_path / "open/report.md").read_text()
    report = json.loads((tmp_path / "open/report.json").read_text())
    assert (report["audience"], report["corpus"]["documents"], report["corpus"]["withheld"]) == ("everybody", 4, 2)


def test_report_for_a_group_says_so(office: Home, tmp_path: Path) -> None:
    run(office, "bench", "-p", "words", "--out", str(tmp_path / "open"))  # must not be taken from the cache
    run(office, "bench", "-p", "words", "--as", "board", "--out", str(tmp_path / "board"))
    text = quoted(tmp_path / "board")
    assert SECRET in text and "Condor" not in text
    assert json.loads((tmp_path / "board/report.json").read_text())["audience"] == "board"


def test_questions_about_restricted_documents_are_left_out_of_a_report_for_everybody(
    office: Home, tmp_path: Path
) -> None:
    run(office, "exam", "generate", "--name", "all", "--as", "*")
    shown = run(office, "bench", "-p", "words", "--exam", "all", "--out", str(tmp_path / "open"))
    text = quoted(tmp_path / "open")
    assert SECRET not in text and "Condor" not in text
    exam = json.loads((tmp_path / "open/report.json").read_text())["exam"]
    assert exam["dropped"] == exam["restricted"] > 0
    assert f"{exam['restricted']} questions were left out: their passages are in restricted documents" in shown
    assert "no longer in the documents" not in shown


def test_bench_and_status_count_documents_alike(office: Home, tmp_path: Path) -> None:
    office.write("docs/nothing.md", "")
    office.sync()
    with office.open() as kb:
        status = kb.status()
    run(office, "bench", "-p", "words", "--out", str(tmp_path / "all"))
    corpus = json.loads((tmp_path / "all/report.json").read_text())["corpus"]
    assert corpus["documents"] + corpus["withheld"] == status.documents


def test_report_follows_a_rule_that_was_added_later(office: Home, tmp_path: Path) -> None:
    run(office, "bench", "-p", "words", "--out", str(tmp_path / "before"))
    assert "mortgage" in quoted(tmp_path / "before")
    office.configure(WORDS + '\n[[access]]\npath = "mortgage.md"\ngroups = ["loans"]\n')
    run(office, "bench", "-p", "words", "--out", str(tmp_path / "after"))
    assert "mortgage" not in quoted(tmp_path / "after")
