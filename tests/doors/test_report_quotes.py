"""Reports and results of jobs go on quoting nothing that was restricted or removed after they were made."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exam_helpers import surefind
from helpers import WORDS, Home
from report_helpers import bench_report, row
from surefind.base.disk.sealed import to_json
from surefind.lab.bench.report import (
    BenchReport,
    HarmedQuestion,
    QuotedChunk,
    QuotedGold,
    RerankChange,
    SampledQuestion,
)
from surefind.lab.bench.saved import readable_report
from surefind.lab.study.html import readable_study
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


def test_what_is_no_longer_readable_is_no_longer_quoted(bank: Bank) -> None:
    """One document is restricted, and another is removed."""
    job = _job(bank, "ada", kind="bench", exam="staff")
    (row,) = bank.ask("ada", "GET", "/v1/reports").json()["reports"]
    quoted = _everything(bank, "ada", job, row["id"])[f"/v1/reports/{row['id']}"]
    assert "animal3" in quoted and "animal4" in quoted
    bank.home.write("docs/animal3.md", "---\nacl: [hr]\n---\n# Title of animal3\n\nThe cutoff of animal3 is 3 pm.\n")
    (bank.home.folder / "docs/animal4.md").unlink()
    _job(bank, "boss", kind="sync")
    for _ in range(200):
        if all(bank.ask("ada", "GET", f"/v1/documents/animal{n}.md").status_code == 404 for n in (3, 4)):
            break
        time.sleep(0.05)
    told = _everything(bank, "ada", job, row["id"])
    assert not [path for path, text in told.items() if "animal3" in text or "animal4" in text]
    shown = json.loads(told[f"/v1/reports/{row['id']}"])
    assert {f"when is the cutoff of animal{n}?" for n in (0, 1, 2, 5)} == {*shown["query_texts"]} - {""}
    assert len(shown["queries"]) == 4 and shown["rows"][0]["measures"]
    whole = bank.ask("boss", "GET", f"/v1/reports/{row['id']}").json()
    assert "animal3" in json.dumps(whole["queries"]) and "animal4" in json.dumps(whole["queries"]), (
        "the owner reads what was measured"
    )


def _question(key: str, text: str, gold: QuotedGold) -> SampledQuestion:
    return SampledQuestion(id=key, text=text, family="f", overlap=None, gold=(gold,), results=())


def _harmed(key: str, text: str, *top: str) -> HarmedQuestion:
    before, after = top
    return HarmedQuestion(id=key, text=text, family="f", change=-0.5, first_relevant=(1, None), top=(before, after))


def _report(ids: tuple[str, str] = ("a", "b")) -> BenchReport:
    """A report that quotes one open and one restricted document in every place that quotes."""
    worst = (_harmed("a", "about open?", "Open", "Secret"), _harmed("b", "about secret?", "Secret", "Open"))
    moved = RerankChange(stage="s", swaps=1.0, top1_changed=0.5, fell_back=0, why="", worst=worst)
    steps = (moved, replace(moved, worst=None))
    return bench_report(
        row("r", reranking=steps, scores=(1.0, 0.5)),
        query_ids=ids,
        query_texts=("about open?", "about secret?"),
        query_documents=(("open.md",), ("open.md", "secret.md")),
        query_clusters=(0, 1),
        queries=(
            _question("a", "about open?", QuotedGold("open.md", "Open", "words")),
            _question("b", "about secret?", QuotedGold("secret.md", "Secret", "x")),
        ),
        chunks=(QuotedChunk("secret.md", "Secret", ("A",), "words"), QuotedChunk("open.md", "Open", ("A",), "words")),
    )


def test_every_part_that_quotes_is_shown_by_the_documents_of_today() -> None:
    found = readable_report(_report(), {"open.md"})
    assert "secret" not in json.dumps(to_json(found)).lower()
    assert found.query_texts == ("about open?", "") and [one.id for one in found.queries] == ["a"]
    assert [one.document for one in found.chunks] == ["", "open.md"], "passages are known by their place"
    assert found.rows[0].reranking[0].worst == (_harmed("a", "about open?", "Open", ""),)
    whole, every = readable_report(_report(), {"open.md", "secret.md"}), _report()
    assert (whole.queries, whole.chunks, whole.query_texts) == (every.queries, every.chunks, every.query_texts)
    assert whole.rows[0].reranking == every.rows[0].reranking


def test_a_question_does_not_lend_its_rights_to_another_that_has_its_id() -> None:
    found = readable_report(_report(("b", "b")), {"open.md"})
    assert found.queries == () and "secret" not in json.dumps(to_json(found)).lower()


def test_figures_about_hidden_documents_are_left_out() -> None:
    found = to_json(readable_report(_report()))
    assert found["exam"].keys() == {"name", "version", "queries", "families"}
    assert found["corpus"].keys() == {"documents", "layout"}
    assert not {"chunks", "index_bytes"} & found["rows"][0].keys() and found["rows"][0]["measures"]


def test_the_raw_results_of_a_study_are_left_out() -> None:
    study = {"study": "cascade", "tables": [{"title": "Table"}], "results": {"kb": {"stage": {"question": "secret"}}}}
    assert readable_study(study) == {"study": "cascade", "tables": [{"title": "Table"}]}
