"""Pages with long titles, unbroken URLs and text from right to left: nothing is printed over anything else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cases import each
from helpers import Home
from surefind.base.types import ExamName
from surefind.doors.cli import app
from surefind.lab.bench.answers import AnswersExam, AnswersReport, AnswersRow, Refusals
from surefind.lab.bench.answers import render as answers_page
from surefind.lab.bench.report import environment
from surefind.lab.calibrate.report import ConfidenceQuestions, ConfidenceReport, MeanConfidence, Reliability
from surefind.lab.calibrate.report import render as calibration_page
from surefind.lab.measure.statistics import Interval
from surefind.lab.study.html import render as study_page
from web_helpers import BROWSER, fits

pytestmark = list(BROWSER)

URL = "https://intranet.example.com/" + "a-path-without-any-break/" * 8 + "?token=" + "f" * 200
WORD = "InternationalWireTransferCutoffNotificationService" * 4
ARABIC = "سياسة التحويلات البنكية الدولية وتوقيتات القطع والحدود القصوى المسموح بها"
SETTINGS = f"""
[search]
pipeline = "words"
[pipelines.words]
retrieve = ["bm25"]
[pipelines.{"a_long_name_" * 8}]
retrieve = ["bm25", "tfidf"]
fuse = "weighted(weights=[0.123456, 0.876544], missing=score)"
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One page of each kind. Those of a benchmark and of a graph come from the commands that write them."""
    home = Home(tmp_path_factory.mktemp("long"), SETTINGS)
    home.write("docs/a.md", f"# {WORD}\n\nThe cutoff is 4 pm, see {URL} of {WORD}.\n\n## {URL}\n\nCash orders.\n")
    home.write("docs/b.md", f"# {ARABIC}\n\n{ARABIC} cutoff {WORD}\n")
    for i in range(4):
        home.write(f"docs/{'long_file_name_' * 6}{i}.md", f"# Note {i} {URL}\n\nItem {i} costs {i} dollars. {WORD}\n")
    questions = [(f"When is the cutoff of {URL}", "a.md"), (ARABIC, "b.md"), (WORD, "a.md"), ("cutoff", "b.md")]
    rows = [json.dumps({"query": text, "document": document}) for text, document in questions]
    home.write("real.jsonl", "\n".join(rows))
    home.sync("docs")
    kb = ["--kb", str(home.folder)]
    for words in (
        ["exam", "import", str(home.folder / "real.jsonl"), *kb],
        ["bench", "--exam", "real", "-p", "words", "-p", "a_long_name_" * 8, "-p", "tfidf", *kb],
        ["graph", "show", *kb],
    ):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    (report,) = home.folder.glob(".surefind/reports/*/report.html")
    found = {"report": report, "graph": home.folder / ".surefind/graph.html"}
    made = {
        "study": study_page(study()),
        "calibration": calibration_page(calibration()),
        "answers": answers_page(answers()),
    }
    for name, page in made.items():
        found[name] = home.write(f"{name}.html", page)
    return found


def study() -> dict[str, Any]:
    heads = [{"text": WORD[:30], "group": URL}, {"text": "nDCG@10", "paper": True}]
    lines = [{"name": WORD, "spec": URL, "left_out": URL, "cells": [0.5, None]}]
    finding = {
        "paper": True,
        "claim": URL,
        "verdicts": [{"collection": WORD, "outcome": "agrees", "text": URL}],
    }
    table = {
        "number": "Table 1", "title": URL, "heads": heads, "rows": lines, "chart": "", "clouds": [], "drawn": None,
        "findings": [finding], "notes": [URL], "command": f"surefind study {WORD}",
    }  # fmt: skip
    return {
        "surefind": "0.1", "created": "2026-01-01T00:00:00", "title": WORD, "source": URL, "tables": [table],
        "collections": [{"name": WORD, "exam": URL, "audience": "everybody", "questions": 7}],
        "environment": {"python": "3", "platform": "Linux", "cores": 2}, "command": f"surefind study {URL}",
    }  # fmt: skip


def calibration() -> ConfidenceReport:
    found = Reliability(
        error=0.1, error_by_chance=0.1, searches=7, brier=0.2, auc=0.7, mean=0.5, observed=0.5, bins=()
    )  # fmt: skip
    return ConfidenceReport(
        surefind="0.1", created="2026-01-01T00:00:00", pipeline=URL, exam=ExamName(WORD), success=URL, layout="whole",
        questions=ConfidenceQuestions(7, 7, 0), held_out=found, builtin=found, indexes=(), corpus="", documents=(),
        predictors={}, words="", confidence="read", right=0.5, mean=MeanConfidence(0.5, 0.5), proposed=None,
    )  # fmt: skip


def answers() -> AnswersReport:
    one = Interval(0.5, 0.25, 0.75)
    row = AnswersRow(
        name=WORD, aliases=(ARABIC,), spec="bm25", letters="a", right=one, first=one, reached=one, answered=one,
        unsure=one, precision=one, lost=one, facts=one, precision_at_half=one, aurc=one, characters=300.0, seconds=0.5,
        unanswerable=(Refusals(name=WORD, questions=7, refused=one, unanswered=one),),
        curve=((0.5, 0.0), (1.0, 0.25)),
    )  # fmt: skip
    return AnswersReport(
        surefind="0.1", created="2026-01-01T00:00:00", command=f"surefind bench --answers {URL}", audience="everybody",
        exam=AnswersExam(name=WORD, version=1, queries=7, without_span=7, dropped=7), groups=(), confidence=0.95,
        environment=environment(), rows=(row, replace(row, name=URL)),
    )  # fmt: skip


@each("width", [1280, 390])
@each("name", ["report", "study", "calibration", "answers", "graph"])
def test_nothing_is_printed_over_anything_else(pages: dict[str, Path], browser: Any, name: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(pages[name].as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    fits(page)
    page.close()
    assert problems == []
