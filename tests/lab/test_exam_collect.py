"""Candidate questions from logs, chat exports, tickets and FAQ tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cases import each
from exam_helpers import surefind
from surefind.base.errors import DamagedError, ExamError
from surefind.lab.exam.formats.questions import delimiter_of, read_questions
from surefind.lab.exam.questions import normalised, unfit
from surefind.lab.exam.store import ExamStore

TWO = ["when is the wire cutoff", "who signs the CTR form, and when?"]


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


# ---------------------------------------------------------------- formats


@each(
    ("name", "text"),
    [
        ("log.txt", "when is the wire cutoff\n\nwho signs the CTR form, and when?\n"),
        ("faq.csv", 'question,answer\nwhen is the wire cutoff,5 pm\n"who signs the CTR form, and when?",the officer\n'),
        (
            "faq.csv",
            "id;Question;Answer\n1;when is the wire cutoff;5, sharp\n2;who signs the CTR form, and when?;x\n",
        ),
        ("log.tsv", "time\tquery\n9:00\twhen is the wire cutoff\n9:01\twho signs the CTR form, and when?\n"),
        ("log.csv", "time|query\n9:00|when is the wire cutoff\n9:01|who signs the CTR form, and when?\n"),
        ("one.csv", "question\nwhen is the wire cutoff\nwho signs the CTR form, and when?\n"),
        ("bare.csv", "when is the wire cutoff\nwho signs the CTR form, and when?\n"),
        ("tickets.csv", "sep=;\nTicket Subject;Body\nwhen is the wire cutoff;a\nwho signs the CTR form, and when?;b\n"),
        ("ids.csv", 'question_id,text\n1,when is the wire cutoff\n2,"who signs the CTR form, and when?"\n'),
        ("chat.jsonl", "".join(json.dumps({"role": "user", "content": text}) + "\n" for text in TWO)),
        ("chat.jsonl", "".join(json.dumps(text) + "\n" for text in TWO)),
        ("chat.json", json.dumps({"channel": "ops", "messages": [{"message": text} for text in TWO]})),
        ("list.json", json.dumps([{"query": text, "clicks": 3} for text in TWO])),
    ],
)
@each("ends", ["\n", "\r\n"])
def test_questions_of_every_format(tmp_path: Path, name: str, text: str, ends: str) -> None:
    assert read_questions(write(tmp_path / name, text.replace("\n", ends))) == TWO


@each("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_files_of_spreadsheet_programs(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path / "faq.csv", "Frage;question\n1;Wo ist die Übersicht der Gebühren?\n", encoding)
    assert read_questions(path) == ["Wo ist die Übersicht der Gebühren?"]


def test_a_ticket_keeps_its_lines_together(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", 'id,message\n1,"Hello,\n\nwhere is the ""wire"" form?"\n')
    assert read_questions(path) == ['Hello,\n\nwhere is the "wire" form?']


def test_the_assistant_of_a_chat_is_left_out(tmp_path: Path) -> None:
    rows = [{"role": "user", "content": "wire cutoff time"}, {"role": "assistant", "content": "The cutoff is 5 pm."}]
    path = write(tmp_path / "chat.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert read_questions(path) == ["wire cutoff time"]
    table = write(tmp_path / "chat.csv", "role,content\nuser,wire cutoff time\nassistant,The cutoff is 5 pm.\n")
    assert read_questions(table) == ["wire cutoff time"]


def test_a_column_can_be_chosen_by_name_or_number(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "subject,Details\nwire,when is the wire cutoff\n")
    assert read_questions(path) == ["wire"]
    assert read_questions(path, "details") == ["when is the wire cutoff"]
    bare = write(tmp_path / "bare.csv", "7,when is the wire cutoff\n8,who signs\n")
    assert read_questions(bare, "2") == ["when is the wire cutoff", "who signs"]


@each(
    ("name", "text", "column", "says"),
    [
        ("t.csv", "a,b\n1,2\n3,4\n", "", "no column with a usual name"),
        ("t.csv", "question,b\n1,2\n", "qestion", "no column 'qestion'. Did you mean question?"),
        ("t.csv", "a,b\n1,2\n", "5", "has 2 columns, so there is no column 5"),
        ("t.jsonl", '{"query": "a"}\n{oops\n', "", "line 2: not JSON"),
        ("t.json", "{", "", "is not JSON"),
        ("t.jsonl", '{"n": 5}\n', "", "no column with a usual name"),
        ("t.txt", "a\n", "query", "plain text, which has no columns"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, name: str, text: str, column: str, says: str) -> None:
    with pytest.raises(ExamError, match=says):
        read_questions(write(tmp_path / name, text), column)


def test_the_delimiter_is_not_guessed_from_the_words() -> None:
    assert delimiter_of("query;n\na, b, c;1\nd, e, f;2\n") == ";"
    assert delimiter_of("id,query\n1,a; b; c\n2,d; e\n") == ","
    assert delimiter_of("how do I text, please\nwhere is it\nand when\n") not in ",;\t|"


# ---------------------------------------------------------------- what is a question


@each(
    ("text", "reason"),
    [
        ("", "empty"),
        ("?!", "empty"),
        ("Hi there!", "greetings"),
        ("Thank you so much", "greetings"),
        ("how do I", "content words"),
        ("what is the wire?", "content words"),
        ("x " * 201, "longer"),
        ("wire cutoff", ""),
        ("AML-204", ""),
        ("what is the wire cutoff?", ""),
        ("電信送金の締切時間は", ""),
        ("Hi team, where is the wire form?", ""),
    ],
)
def test_what_may_be_a_candidate(text: str, reason: str) -> None:
    found = unfit(text)
    assert reason in found if reason else found == ""


def test_questions_are_compared_without_case_accents_and_punctuation() -> None:
    assert normalised("  Où est  le Formulaire ?") == normalised("ou est le formulaire")
    assert normalised("wire cutoff") != normalised("wire cut off")


# ---------------------------------------------------------------- the file and the command


def test_candidates_are_stored_once_and_counted(tmp_path: Path) -> None:
    made = ExamStore(tmp_path).candidates("real").collect(["Wire cutoff?", "wire  cutoff", "hi"], "log.txt")
    assert [candidate.text for candidate in made.added] == ["Wire cutoff?"]
    assert dict(made.skipped) == {"asked before": 1, "greetings and thanks": 1}
    (kept,) = ExamStore(tmp_path).candidates("real").all()
    assert (kept.text, kept.source, kept.asked) == ("Wire cutoff?", "log.txt", 2)


def test_a_broken_file_of_candidates_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "questions.db", "{" * 5000)
    with pytest.raises(DamagedError, match=r"questions\.db is damaged: .* Restore the files"):
        ExamStore(tmp_path).candidates("real")


def test_the_command_counts_by_reason(tmp_path: Path) -> None:
    log = write(tmp_path / "log.txt", "hello\nwhen is the wire cutoff\nWhen is the wire cutoff?\nok\nctr deadline\n")
    ran = surefind("exam", "collect", "real", log, kb=tmp_path)
    assert ran.code == 0 and ran.out.startswith("Questions added to real: 2. Candidates without an answer: 2.\n")
    assert "    2 left out: greetings and thanks\n" in ran.out and "    1 left out: asked before\n" in ran.out
    again = surefind("exam", "collect", "real", log, "--json", kb=tmp_path).json
    assert (again["added"], again["candidates"], again["skipped"]["asked before"]) == (0, 2, 3)


def test_two_files_of_one_name_are_both_read(tmp_path: Path) -> None:
    for folder, text in (("a", "when is the wire cutoff\n"), ("b", "who signs the ctr form\n")):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "log.txt", text)
    ran = surefind("exam", "collect", "real", tmp_path / "a/log.txt", tmp_path / "b/log.txt", kb=tmp_path)
    assert ran.out.startswith("Questions added to real: 2.")


def test_questions_come_from_a_file_or_from_the_log(tmp_path: Path) -> None:
    nothing = surefind("exam", "collect", "real", kb=tmp_path)
    assert nothing.code == 2 and "--kept" in nothing.err


def test_candidates_alone_are_no_exam(tmp_path: Path) -> None:
    surefind("exam", "collect", "real", write(tmp_path / "log.txt", "ctr deadline\n"), kb=tmp_path)
    assert ExamStore(tmp_path / ".surefind" / "exams").names() == []
    assert "There is no exam called 'real'" in surefind("exam", "show", "real", kb=tmp_path).err


@each(("name", "says"), [("../x", "cannot be called"), ("real", "cannot be read")])
def test_wrong_names_and_files_are_refused(tmp_path: Path, name: str, says: str) -> None:
    ran = surefind("exam", "collect", name, tmp_path / "missing.csv" if name == "real" else tmp_path, kb=tmp_path)
    assert ran.code == 2
    assert not (tmp_path / ".surefind").exists()
