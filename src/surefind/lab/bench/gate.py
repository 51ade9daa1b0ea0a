"""The gate that asks the standing exam: it refuses a generation on which the exam's answers get worse.

A generation is refused if both hold:

- the mean nDCG@10 falls by more than `gate_margin`;
- the upper end of the 95% interval of the difference is below 0, so that chance does not explain the loss.

The regression gate: tells whether retrieval is significantly worse than in an earlier report.

Questions are paired by their text. Ids alone are not enough: in a file that numbers its questions, one new row shifts
the ids of all questions below it.

Which questions of the standing exam a draft gains or loses, before it is published.

The draft's set of documents is built as for publishing, and the exam is asked on it and on the current generation. Then
the set is deleted. Every question is asked, because a changed document can move any ranking (see `bench.drift`); what
the draft does not touch comes from the caches. All of it runs with the rights of the caller, on word statistics of the
documents that they may read: a rank would else tell whether a restricted document has a word of the draft.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from surefind.base.access import Access
from surefind.base.errors import ExamError, GateError, NothingIndexedError, SurefindError, UsageError
from surefind.base.prompts.values import Calls
from surefind.base.protocols import OnProgress
from surefind.base.running import check_stopped
from surefind.engine.search.reader import Searcher
from surefind.kb import KnowledgeBase
from surefind.lab.bench.drift import (
    Drift,
    drift_calls,
    has_standing_exam,
    listed,
    measure_drift,
    standing_exam,
    summary,
)
from surefind.lab.bench.report import BenchReport, RunDifference, compare_runs, corrected
from surefind.lab.bench.saved import read_report, write_report
from surefind.lab.exam.model import readable_questions

_WAY_OUT = "To publish without the gate, run the same command with --no-gate."


class ExamGate:
    """Asks the standing exam on the current generation and on the next one. Raises `GateError` to refuse the next."""

    def __init__(self, kb: KnowledgeBase, report: OnProgress | None = None) -> None:
        self.kb = kb
        self.report = report
        self.drift: Drift | None = None
        """The result of the last exam; None if nothing was asked."""

    def __call__(self, before: Searcher, after: Searcher) -> None:
        try:
            exam = standing_exam(self.kb, before)
            self.drift = measure_drift(self.kb, exam, before, after, self.report)
        except SurefindError as error:
            raise GateError(_unasked(str(error), before)) from error
        if self.drift.problems:
            raise GateError(_unasked(f"{self.drift.problems[0]}.", before))
        if self.drift.lost_more_than(self.kb.settings.gate_margin):
            raise GateError(_refusal(self.drift, before, self.kb.settings.gate_margin))

    def calls(self) -> list[Calls]:
        """Estimates the LLM calls of the exam, as an upper bound."""
        if not self.kb.pipeline().asks_llm:
            return []
        try:
            return drift_calls(self.kb, standing_exam(self.kb, self.kb.reader()))
        except NothingIndexedError:  # the first generation is not compared with anything
            return []


def _refusal(drift: Drift, before: Searcher, margin: float) -> str:
    lines = [
        f"The gate refused the new documents: {drift.exam} got worse by more than gate_margin = {margin:g}. "
        f"{_unchanged(before)}",
        f"{summary(drift)}, on {drift.questions} questions",
        *listed("got worse", drift.worse),
        f"Fix the documents and run the command again. {_WAY_OUT}",
    ]
    return "\n".join(lines)


def _unasked(why: str, before: Searcher) -> str:
    return f"The gate could not ask the standing exam: {why} {_unchanged(before)} {_WAY_OUT}"


def _unchanged(before: Searcher) -> str:
    return f"Nothing was published: searches still see generation {before.generation}."


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


@dataclass(frozen=True)
class Preview:
    """What publishing a draft would do to the answers of the standing exam."""

    drift: Drift | None
    """None if the exam was not asked."""
    reason: str = ""
    """Why it was not asked."""


def preview(kb: KnowledgeBase, number: int, access: Access, revision: int | None = None) -> Preview:
    """Asks the standing exam as if a draft was published, for a caller: the questions whose documents they may read.
    Raises `ConflictError` if `revision` is not the newest of the draft. Holds the writer's lock, and leaves nothing
    behind."""
    if not has_standing_exam(kb):
        return Preview(None, "There is no exam yet. Make one with: surefind exam generate.")
    if kb.pipeline().asks_llm:
        return Preview(None, "The default pipeline asks a language model, so the exam is asked when it is published.")
    if kb.settings.store.backend != "local" and not access.sees_all:
        return Preview(None, "This backend weighs words by all documents, so only who may read all sees the questions.")

    def look(before: Searcher, after: Searcher) -> Drift:
        exam = standing_exam(kb, before)
        asked = readable_questions(exam, before, access)
        if not asked:
            raise ExamError("No question of the standing exam is about documents that you may read.")
        return measure_drift(
            kb, replace(exam, queries=tuple(asked)), before, after, lambda *_: check_stopped(), access=access
        )

    try:
        return Preview(kb.drafts.trial(number, look, revision))
    except (ExamError, NothingIndexedError) as error:
        return Preview(None, str(error))
