"""Reports and results of jobs go on quoting nothing that was restricted or removed after they were made."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exam_helpers import surefind
from helpers import WORDS, Home
from surefind.serve.archive import reduced
from test_http_access import Bank, serving

PAIR = WORDS + '\n[pipelines.counts]\nretrieve = ["tfidf"]\n'


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    """Documents that everybody may read, and an exam about them."""
    home = Home(tmp_path, PAIR)
    asked = ["question,document"]
    for n in range(6):
        home.write(f"docs/animal{n}.md", f"# Title of animal{n}\n\nThe cutoff of animal{n} is {n} pm.\n")
        asked.append(f"when is the cutoff of animal{n}?,animal{n}.md")
    home.write("asked.csv", "\n".join(asked) + "\n")
    home.sync("docs")
    ran = surefind("exam", "import", home.folder / "asked.csv", "--name", "staff", kb=home.folder)
    assert ran.code == 0, ran.err
    with serving(home) as found:
        yield found


def _job(bank: Bank, who: str, **wanted: Any) -> str:
    started = bank.ask(who, "POST", "/v1/jobs", json=wanted)
    assert started.status_code == 202, started.text
    job = str(started.json()["id"])
    for _ in range(600):
        found = bank.ask(who, "GET", f"/v1/jobs/{job}").json()
        if found["ended"]:
            assert found["state"] == "finished", found
            return job
        time.sleep(0.05)
    raise AssertionError("the job did not end")


def _everything(bank: Bank, who: str, job: str, report: str) -> dict[str, str]:
    paths = (
        "/v1/jobs", f"/v1/jobs/{job}", f"/v1/jobs/{job}/events", f"/jobs/{job}", "/v1/reports", f"/v1/reports/{report}",
        "/reports", f"/reports/benchmark/{report}", f"/reports/benchmark/{report}/full",
    )  # fmt: skip
    return {path: bank.ask(who, "GET", path).text for path in paths}


@pytest.mark.parametrize("how", ["restricted", "removed"])
def test_what_is_no_longer_readable_is_no_longer_quoted(bank: Bank, how: str) -> None:
    job = _job(bank, "ada", kind="bench", exam="staff")
    (row,) = bank.ask("ada", "GET", "/v1/reports").json()["reports"]
    assert "animal3" in _everything(bank, "ada", job, row["id"])[f"/v1/reports/{row['id']}"]
    if how == "restricted":
        bank.home.write(
            "docs/animal3.md", "---\nacl: [hr]\n---\n# Title of animal3\n\nThe cutoff of animal3 is 3 pm.\n"
        )
    else:
        (bank.home.folder / "docs/animal3.md").unlink()
    _job(bank, "boss", kind="sync")
    for _ in range(200):
        if bank.ask("ada", "GET", "/v1/documents/animal3.md").status_code == 404:
            break
        time.sleep(0.05)
    told = _everything(bank, "ada", job, row["id"])
    assert not [path for path, text in told.items() if "animal3" in text]
    shown = json.loads(told[f"/v1/reports/{row['id']}"])
    assert {f"when is the cutoff of animal{n}?" for n in range(6) if n != 3} == {*shown["query_texts"]} - {""}
    assert len(shown["queries"]) == 5 and shown["rows"][0]["measures"]
    whole = bank.ask("boss", "GET", f"/v1/reports/{row['id']}").json()
    assert "animal3" in json.dumps(whole["queries"]), "the owner reads what was measured"


def _report(**more: Any) -> dict[str, Any]:
    """A report that quotes one open and one restricted document in every place that quotes."""
    worst = [
        {"id": "a", "text": "about open?", "top": ["Open", "Secret"]},
        {"id": "b", "text": "about secret?", "top": ["Secret", "Open"]},
    ]
    chunk = {"headings": ["A"], "text": "words"}
    content = {
        "query_ids": ["a", "b"], "query_texts": ["about open?", "about secret?"],
        "query_documents": [["open.md"], ["open.md", "secret.md"]],
        "queries": [
            {"id": "a", "text": "about open?", "gold": [{"document": "open.md", "title": "Open", "text": "words"}]},
            {"id": "b", "text": "about secret?", "gold": [{"document": "secret.md", "title": "Secret", "text": "x"}]},
        ],
        "chunks": [
            {**chunk, "document": "secret.md", "title": "Secret"}, {**chunk, "document": "open.md", "title": "Open"},
        ],
        "rows": [{"name": "r", "reranking": [{"stage": "s", "swaps": 1.0, "worst": worst}, {"stage": "t"}]}],
    }  # fmt: skip
    return content | more


def test_every_part_that_quotes_is_shown_by_the_documents_of_today() -> None:
    found = reduced(_report(), {"open.md"})
    assert "secret" not in json.dumps(found).lower()
    assert found["query_texts"] == ["about open?", ""] and [one["id"] for one in found["queries"]] == ["a"]
    assert [one["document"] for one in found["chunks"]] == ["", "open.md"], "passages are known by their place"
    assert found["rows"][0]["reranking"][0]["worst"] == [{"id": "a", "text": "about open?", "top": ["Open", ""]}]
    assert reduced(_report(), {"open.md", "secret.md"}) == _report()


def test_a_report_that_does_not_name_the_documents_of_its_questions_shows_none() -> None:
    """As reports of earlier versions; nor does one question lend its rights to another that has its id."""
    old = {key: value for key, value in _report().items() if key != "query_documents"}
    for content in (old, _report(query_ids=["b", "b"])):
        found = reduced(content, {"open.md"})
        assert found["queries"] == [] and "secret" not in json.dumps(found).lower()


def test_figures_are_left_as_they_are() -> None:
    calibration = {"exam": {"name": "staff"}, "rows": [{"when": "always", "error": 0.1}]}
    assert reduced(calibration) == calibration


def test_the_raw_results_of_a_study_are_left_out() -> None:
    study = {"study": "cascade", "tables": [{"title": "Table"}], "results": {"kb": {"stage": {"question": "secret"}}}}
    assert reduced(study, {"open.md"}) == {"study": "cascade", "tables": [{"title": "Table"}]}
