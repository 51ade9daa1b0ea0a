"""The regression gate: tells whether retrieval is significantly worse than in an earlier report.

Questions are paired by their text. Ids alone are not enough: in a file that numbers its questions, one new row shifts
the ids of all questions below it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from surefind.base.errors import UsageError
from surefind.lab.bench.comparison import RunDifference, compare_runs, corrected
from surefind.lab.bench.report import BenchReport
from surefind.lab.bench.saved import read_report, write_report


@dataclass(frozen=True, kw_only=True)
class Regression(RunDifference):
    """A configuration in both reports."""

    name: str


@dataclass(frozen=True)
class CheckResult:
    rows: tuple[Regression, ...]

    @property
    def failed(self) -> bool:
        return any(row.failed for row in self.rows)

    def __str__(self) -> str:
        lines = [f"Compared on {self.rows[0].questions} questions that are in both reports:"]
        for row in self.rows:
            verdict = "WORSE" if row.failed else "ok"
            lines.append(f"  {verdict:<6}{row.name}: {row.before:.3f} -> {row.after:.3f} (p {row.p:.3f} after Holm)")
        return "\n".join(lines)


Question = tuple[str, str]
"""The text and the id of a question."""


@dataclass(frozen=True)
class Baseline:
    path: Path
    primary: str
    scores: dict[str, dict[Question, float]]
    """Configuration -> question -> score."""


def save_baseline(report: BenchReport, path: Path) -> None:
    """Writes a report for a later check: without the questions and passages to look at."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_report(replace(report, queries=(), chunks=()), path)


def read_baseline(path: Path) -> Baseline:
    try:
        report = read_report(path)
        return Baseline(path, report.primary, {name: scores for names, scores in _scores(report) for name in names})
    except UsageError as error:
        raise UsageError(f"{error} Write a baseline with: surefind bench --save FILE.") from None


def _scores(report: BenchReport) -> list[tuple[list[str], dict[Question, float]]]:
    """The names and the scores of each row."""
    questions = _questions(report)
    return [([row.name, *row.aliases], dict(zip(questions, row.scores, strict=True))) for row in report.rows]


def _questions(report: BenchReport) -> list[Question]:
    return list(zip(report.query_texts, report.query_ids, strict=True))


def check_report(report: BenchReport, baseline: Baseline) -> CheckResult:
    """Compares a report to the baseline: paired by question, for each configuration that both have by name, with Holm's
    correction over all of them."""
    before = baseline.scores
    shown = [(next((name for name in names if name in before), ""), scores) for names, scores in _scores(report)]
    after = {name: scores for name, scores in shown if name}
    names = list(after)
    shared = _pairs(before[names[0]], after[names[0]]) if names else []
    if baseline.primary != report.primary or not shared:
        raise UsageError(
            f"{baseline.path} has no configuration, measure and questions in common with this run. "
            "Write a new baseline with: surefind bench --save FILE."
        )
    old = np.array([[before[name][question] for name in names] for question, _ in shared])
    new = np.array([[after[name][question] for name in names] for _, question in shared])
    numbers = dict(zip(_questions(report), report.query_clusters, strict=True))
    clusters = np.array([numbers[question] for _, question in shared], dtype=np.int64)
    rows = zip(names, compare_runs(old, new, clusters), strict=True)
    return CheckResult(tuple(corrected([Regression(name=name, **row.figures) for name, row in rows])))


def _pairs(before: Iterable[Question], after: Iterable[Question]) -> list[tuple[Question, Question]]:
    """Pairs the questions that are in both reports, by text; a text that occurs more than once also needs the same
    id."""
    sides = [list(before), list(after)]
    repeated = {text for side in sides for text, count in Counter(text for text, _ in side).items() if count > 1}
    old, new = (
        {(text, query_id if text in repeated else ""): (text, query_id) for text, query_id in side} for side in sides
    )
    return [(old[key], new[key]) for key in sorted(old.keys() & new.keys())]
