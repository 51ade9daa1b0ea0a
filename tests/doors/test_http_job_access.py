"""What a caller sees of jobs: these run as the owner, and their output is about every document."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exam_helpers import surefind
from helpers import WORDS, Home
from surefind.base.access import Caller
from surefind.doors.http.jobs import Job, job_data
from test_http_access import Bank, serving


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Restricted documents with an exam about them, which a gate asks."""
    home = Home(tmp_path, WORDS + "\n[sync]\ngate = true\n")
    home.write("docs/wires.md", "# Wires\n\nThe cutoff of wires is 3 pm.\n")
    asked = ["question,document", "when is the cutoff of wires?,wires.md"]
    for n in range(8):
        home.write(f"docs/hr/zebra{n}.md", f"---\nacl: [hr]\n---\n# Zebra {n}\n\nThe salary of animal{n} is {n}.\n")
        asked.append(f"what is the salary of animal{n}?,hr/zebra{n}.md")
    home.write("docs/hr/zebra.docx", b"\0\1\2")
    home.write("asked.csv", "\n".join(asked) + "\n")
    home.sync("docs", gate=lambda before, after: None)
    ran = surefind("exam", "import", home.folder / "asked.csv", "--name", "staff", kb=home.folder)
    assert ran.code == 0, ran.err
    return home


@pytest.fixture
def bank(home: Home) -> Iterator[Bank]:
    with serving(home) as found:
        yield found


def _job(bank: Bank, name: str, **wanted: Any) -> str:
    started = bank.ask(name, "POST", "/v1/jobs", json=wanted)
    assert started.status_code == 202, started.text
    found = str(started.json()["id"])
    for _ in range(600):
        if bank.ask(name, "GET", f"/v1/jobs/{found}").json()["ended"]:
            return found
        time.sleep(0.05)
    raise AssertionError("the job did not end")


def _everything(bank: Bank, name: str, key: str) -> str:
    """All that the server tells a caller about a job."""
    paths = ("/v1/jobs", f"/v1/jobs/{key}", f"/v1/jobs/{key}/events", f"/jobs/{key}")
    return "\n".join(bank.ask(name, "GET", path).text for path in paths)


def test_result_of_a_sync_is_reduced_for_who_does_not_see_everything(bank: Bank) -> None:
    bank.home.write("docs/wires.md", "# Wires\n\nThe cutoff of wires is 4 pm.\n")
    job = _job(bank, "ada", kind="sync")
    told = _everything(bank, "ada", job)
    assert bank.ask("ada", "GET", f"/v1/jobs/{job}").json()["result"] == {"generation": 2}
    assert "zebra" not in told.lower() and str(bank.home.folder) not in told
    assert "Reading: finished" in told and "to do" not in told
    whole = bank.ask("boss", "GET", f"/v1/jobs/{job}").json()["result"]
    assert whole["documents"] == 9 and "zebra.docx" in json.dumps(whole["problems"])
    assert "9 to do" in bank.ask("boss", "GET", f"/v1/jobs/{job}/events").text


def test_refusal_of_the_gate_names_no_restricted_question(bank: Bank) -> None:
    for n in range(8):
        bank.home.write(f"docs/hr/zebra{n}.md", "---\nacl: [hr]\n---\n# Nothing\n\nNothing is said.\n")
    job = _job(bank, "ada", kind="sync")
    told = _everything(bank, "ada", job)
    found = bank.ask("ada", "GET", f"/v1/jobs/{job}").json()
    assert found["state"] == "failed" and "gate" in found["error"]
    assert "animal" not in told and "zebra" not in told and str(bank.home.folder) not in told
    assert "animal" in bank.ask("boss", "GET", f"/v1/jobs/{job}").json()["error"]


def test_benchmark_tells_nothing_of_what_was_left_out(bank: Bank) -> None:
    job = _job(bank, "ada", kind="bench", exam="staff")
    result = bank.ask("ada", "GET", f"/v1/jobs/{job}").json()["result"]
    (row,) = bank.ask("ada", "GET", "/v1/reports").json()["reports"]
    report = bank.ask("ada", "GET", f"/v1/reports/{row['id']}").json()
    page = bank.ask("ada", "GET", f"/reports/benchmark/{row['id']}").text
    for one in (result, report):
        assert one["rows"] and one["corpus"]["documents"] == 1
        assert not {"withheld", "chunks"} & one["corpus"].keys() and "dropped" not in one["exam"]
    for text in (json.dumps(result), json.dumps(report), page, _everything(bank, "ada", job)):
        assert "zebra" not in text.lower() and str(bank.home.folder) not in text
    assert bank.ask("boss", "GET", f"/v1/reports/{row['id']}").json()["exam"]["dropped"] == 8


def test_admin_without_the_groups_of_a_job_does_not_see_its_result(bank: Bank) -> None:
    job = _job(bank, "hr", kind="bench", exam="staff")
    assert bank.ask("hr", "GET", f"/v1/jobs/{job}").json()["result"]["rows"]
    (row,) = bank.ask("hr", "GET", "/v1/reports").json()["reports"]
    assert "zebra" in bank.ask("hr", "GET", f"/v1/reports/{row['id']}").text
    found = bank.ask("admin", "GET", f"/v1/jobs/{job}").json()
    assert (found["state"], found["result"]) == ("finished", None)
    assert "zebra" not in _everything(bank, "admin", job).lower()


def test_error_of_a_job_names_no_folder_of_the_server(bank: Bank) -> None:
    (bank.home.folder / ".surefind/exams/staff").rename(bank.home.folder / ".surefind/exams/moved")
    job = _job(bank, "ada", kind="bench", exam="staff")
    assert "staff" in bank.ask("ada", "GET", f"/v1/jobs/{job}").json()["error"], "it is about the request"
    shown = Job("1", "bench", "ada", frozenset(), 0.0, error="There is no exam in /srv/kb/.surefind/exams/x.json.")
    shown.error_kind = "ExamError"
    caller = Caller("ada", frozenset(), frozenset())
    assert job_data(shown, caller)["error"] == "There is no exam in x.json."
