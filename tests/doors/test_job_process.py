"""The process of a job: its events, its author, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cases import each
from helpers import Home
from surefind import Access, KnowledgeBase
from surefind.base.errors import UsageError
from surefind.base.prompts.values import Calls
from surefind.doors.events import Event, Failure, Notice, ProgressEvent, Result, read, written
from surefind.doors.work import JobContext
from surefind.engine.write.intake import Problem

EVENTS: list[Event] = [
    ProgressEvent("Reading ä", "running", 3, 1200, 1.5),
    Notice("one\ntwo \ud800"),
    Result({"generation": 2, "problems": ["x"]}),
    Failure("UsageError", "No."),
]


@each("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_a_line_that_can_be_read_back(event: Event) -> None:
    line = written(event)
    assert "\n" not in line and read(line.encode()) == event


def test_values_of_ours_are_written_by_their_fields() -> None:
    event = read(written(Result({"at": Path("/a"), "problems": [Problem("a.md", "is empty")]})).encode())
    assert isinstance(event, Result)
    assert event.value["at"] == "/a" and event.value["problems"][0]["reason"] == "is empty"


def test_what_libraries_print_is_no_event() -> None:
    program = (
        "import os; from surefind.doors.events import Notice; from surefind.doors.job_process import _Channel\n"
        "channel = _Channel(); print('noise', flush=True); os.system('echo more'); channel.send(Notice('told'))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [read(line.encode()) for line in ran.stdout.splitlines()] == [Notice("told")]
    assert ran.stderr.split() == ["noise", "more"]


def run(home: Home, kind: str, author: str = "ada", groups: tuple[str, ...] = (), **options: Any) -> list[Event]:
    request = {"kind": kind, "folder": str(home.folder), "author": author, "groups": groups, "options": options}
    command = [sys.executable, "-m", "surefind.doors.job_process"]
    ran = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True)
    return [read(line.encode()) for line in ran.stdout.splitlines()]


def test_a_sync_reports_and_has_the_author_of_its_caller(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    home.sync("docs")
    home.write("docs/b.md", "beta")
    events = run(home, "sync", "Zoë; rm")
    (result,) = [event.value for event in events if isinstance(event, Result)]
    assert (result["added"], result["generation"]) == (1, 2)
    assert {event.what for event in events if isinstance(event, ProgressEvent)} >= {"Reading"}
    with home.open() as kb:
        assert {one.number: one.author for one in kb.generations()}[2] == "Zoë; rm"


def test_a_wrong_author_is_refused(home: Home) -> None:
    (failure,) = run(home, "sync", "a\0b")
    assert isinstance(failure, Failure) and failure.kind == "UsageError"
    with pytest.raises(UsageError, match="person"):
        KnowledgeBase.open(home.folder, author="a\0b")


def test_a_job_spends_no_money(home: Home) -> None:
    with home.open() as kb:
        task = JobContext(kb, Access.public(), lambda *_: None, print, print)
        task.spend_nothing([])
        with pytest.raises(UsageError, match="may cost money"):
            task.spend_nothing([Calls("openai:gpt-4.1-mini", 10, 10_000, 1_000)])
