"""Shows a calibration of confidence as one HTML page with reliability diagrams. It has no scripts and loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from surefind.lab.bench.plain_page import line, page, square, table, x, y
from surefind.lab.calibrate.report import ConfidenceReport, Reliability
from surefind.lab.measure.reliability import Bin


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
