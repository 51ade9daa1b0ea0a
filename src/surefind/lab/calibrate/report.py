"""The reports of `surefind calibrate`: values that the terminal, the page and JSON show.

Shows a calibration of confidence as one HTML page with reliability diagrams. It has no scripts and loads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from surefind.base.disk.sealed import from_json, read_sealed
from surefind.base.errors import UsageError
from surefind.base.types import Effort, ExamName
from surefind.engine.confidence.answering import FORMAT, SavedConfidence
from surefind.engine.confidence.predictor import SavedThreshold
from surefind.engine.confidence.signals import When
from surefind.lab.bench.html import line, page, square, table, x, y
from surefind.lab.measure.thresholds import Bin, Rule

# ---------------------------------------------------------------- confidence


@dataclass(frozen=True)
class ConfidenceQuestions:
    """How many questions were asked."""

    exam: int
    unanswerable: int
    dropped: int


@dataclass(frozen=True)
class MeanConfidence:
    """How sure searches are on average for questions with an answer."""

    held_out: float
    builtin: float


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """How well probabilities hold on questions."""

    searches: int
    error: float
    error_by_chance: float
    brier: float
    auc: float | None
    mean: float
    observed: float
    bins: tuple[Bin, ...]


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A `min_confidence`, and what it hides and shows."""

    target: float
    min_confidence: float
    right_hidden: float
    wrong_shown: float


@dataclass(frozen=True, kw_only=True)
class ConfidenceReport(SavedConfidence):
    surefind: str
    created: str
    exam: ExamName
    success: str
    confidence: Effort
    questions: ConfidenceQuestions
    right: float
    mean: MeanConfidence
    held_out: Reliability
    builtin: Reliability
    proposed: Proposal | None


def read_confidence(file: Path) -> ConfidenceReport:
    """Reads a saved calibration with its report. Raises `UsageError` if it is damaged, or another version of Surefind
    wrote it."""
    try:
        return from_json(ConfidenceReport, read_sealed(file, FORMAT))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{file} is damaged, or another version of Surefind wrote it ({error}). Restore it from a backup, or "
            "remove it and make the calibration again: surefind calibrate confidence."
        ) from None


# ---------------------------------------------------------------- rerankers


@dataclass(frozen=True)
class ThresholdQuestions:
    """How many questions chose the threshold, and how many checked it."""

    tuning: int
    held_out: int
    dropped: int


@dataclass(frozen=True)
class RerankQuality:
    """The quality if no question is reranked, if all are, and if the confidence decides."""

    never: float
    always: float
    conditional: float


@dataclass(frozen=True, kw_only=True)
class SkipResult:
    """What a threshold does on questions."""

    questions: int
    skipped: int
    skip_rate: float
    successes: int
    success: float | None
    """The share of skipped questions that succeed; None if none is skipped."""
    low: float
    high: float
    quality: RerankQuality
    gain_kept: float | None
    """The share of the reranker's gain that is kept; None if there is none."""


@dataclass(frozen=True, kw_only=True)
class TriedThreshold:
    """A threshold on the questions that chose it."""

    below: float
    skipped: int
    success: float
    low: float


@dataclass(frozen=True, kw_only=True)
class CurvePoint(TriedThreshold):
    """A threshold that was tested, with its effect on the held-out questions."""

    held_out: SkipResult


@dataclass(frozen=True, kw_only=True)
class ThresholdRow:
    """One measure of confidence: its threshold, and what it does on both parts."""

    when: When
    below: float | None
    tuning: SkipResult
    held_out: SkipResult
    kept: bool
    """Whether the held-out questions kept the promise."""


@dataclass(frozen=True, kw_only=True)
class ThresholdReport(SavedThreshold):
    surefind: str
    created: str
    exam: ExamName
    success: str
    quality: str
    beta: float
    confidence: float
    seconds: float
    dollars: float
    rule: Rule
    eq32: TriedThreshold | None
    failed: TriedThreshold | None
    most_skipped: float
    questions: ThresholdQuestions
    rows: tuple[ThresholdRow, ...]
    curve: tuple[CurvePoint, ...]

    @property
    def chosen(self) -> ThresholdRow:
        """The row of the measure that is saved."""
        return next(row for row in self.rows if row.when == self.when)


def render(made: ConfidenceReport) -> str:
    """The whole page of what `calibrate_confidence` returns."""
    rows = [("Calibrated", made.held_out), ("Built-in", made.builtin)]
    questions = made.questions
    parts = [
        f'<header><p class="kicker">Surefind {escape(made.surefind)}, {escape(made.created[:10])}</p>'
        f"<h1>How sure is a search?</h1><p class='rest'>{escape(sentence(made))}</p>"
        f'<p class="spec">{escape(made.pipeline)}</p></header>',
        f"<section><p>{escape(made.exam.name)}: {questions.exam} questions, and "
        f"{questions.unanswerable} that no document answers. Each of the"
        f" {made.held_out.searches} searches is judged by a fit without its question. Right: "
        f"{escape(made.success)}.</p>",
        _table(rows),
        "</section>",
        '<div class="beside">',
        *(f"<section><h2>{escape(name)}</h2>{diagram(calibration.bins, name)}</section>" for name, calibration in rows),
        "</div>",
        '<p class="small soft">A circle is a tenth of the searches. On the dashed line, a search that says 0.7 is '
        "right in 70% of the cases; above it, searches are more often right than they say.</p>",
    ]
    return page("Confidence", parts)


def sentence(made: ConfidenceReport) -> str:
    """How well the confidence holds on the held-out questions."""
    held_out, before = made.held_out, made.builtin
    return (
        f"On held-out questions the confidence is off by {held_out.error:.3f} on average (expected calibration error; "
        f"a perfect one would show {held_out.error_by_chance:.3f}). The built-in confidence is off by "
        f"{before.error:.3f}."
    )


def diagram(bins: Sequence[Bin], label: str) -> str:
    """A reliability diagram as SVG: predicted probability to the right, observed share of right first hits upwards."""
    marks = [line("even", (0, 0), (1, 1))]
    for bar in bins:
        marks.append(
            f'<circle cx="{x(bar.predicted)}" cy="{y(bar.observed)}" r="6" style="fill:var(--c0)">'
            f"<title>said {bar.predicted:.2f}, was {bar.observed:.2f}, {bar.count} searches</title></circle>"
        )
    return square(marks, "confidence; upwards: share of right first hits", label)


def _table(rows: Sequence[tuple[str, Reliability]]) -> str:
    heads = ("calibration error", "of a perfect one", "Brier score", "AUC", "mean confidence", "right")
    cells = {
        name: [
            _figure(value)
            for value in (
                calibration.error,
                calibration.error_by_chance,
                calibration.brier,
                calibration.auc,
                calibration.mean,
                calibration.observed,
            )
        ]
        for name, calibration in rows
    }
    return table("How well the confidence holds", heads, cells)


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
