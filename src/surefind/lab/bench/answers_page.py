"""Shows how good the quotes of `surefind ask` are: the cells of a table, and a page with the curve of risks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from surefind.base.disk.folders import private_folder
from surefind.lab.bench.answers_report import ANSWERS_FILE, AnswersReport, AnswersRow, save_answers
from surefind.lab.bench.left_out import left_out_text
from surefind.lab.bench.plain_page import page, square, table, x, y
from surefind.lab.bench.plan import label
from surefind.lab.bench.terminal import interval_text

_COLOURS = 8
_HEADINGS = ("right", "F1", "answered", "right if answered", "right in the surer half", "AURC")
LEGEND = (
    "right: the first quote has the gold answer. F1: words shared with it. AURC: area under the curve of risks, 0 is "
    "best. Brackets: 95% intervals. Pipelines that share a letter are statistically tied (p >= 0.05 after Holm)."
)


def heads(report: AnswersReport) -> list[str]:
    unanswerable = ["refused if unanswerable"] if report.unanswerable else []
    return [*_HEADINGS, *unanswerable, "tied", "s/question"]


def cells(report: AnswersReport, row: AnswersRow) -> list[str]:
    figures = [row.right, row.f1, row.answered, row.precision, row.precision_at_half, row.aurc]
    figures += [row.unanswerable] if report.unanswerable else []
    return [
        *("–" if figure is None else interval_text(figure) for figure in figures),
        row.letters,
        f"{row.seconds:.2f}",
    ]


def row_name(row: AnswersRow) -> str:
    return label(row.name, row.aliases)


def about(report: AnswersReport) -> str:
    """What was asked, and what was left out."""
    exam = report.exam
    text = f"{exam.label}: {exam.queries} questions"
    text += f", and {report.unanswerable} that no document answers." if report.unanswerable else "."
    if exam.without_span:
        text += f" {exam.without_span} questions were left out: their gold is a whole document, not a passage."
    return f"{text} {left_out_text(exam.dropped, exam.restricted)}".rstrip()


def write_answers(report: AnswersReport, folder: Path) -> Path:
    """Writes the figures as JSON and as a page. Returns the path of the page."""
    private_folder(folder)
    save_answers(report, folder / ANSWERS_FILE)
    (folder / "answers.html").write_text(render(report), encoding="utf-8")
    return folder / "answers.html"


def render(report: AnswersReport) -> str:
    """The whole page of what `measure_answers` returns."""
    rows = report.ordered
    figures = {row_name(row): [cell.replace(", ", ",\u00a0") for cell in cells(report, row)] for row in rows}
    return page(
        "Answers",
        [
            f'<header><p class="kicker">Surefind {escape(report.surefind)}, {escape(report.created[:10])}</p>'
            f"<h1>How good are the answers?</h1><p class='rest'>{escape(about(report))}</p>"
            f'<p class="spec">{escape(report.command)}</p></header>',
            "<section>",
            table("How good the answers are", heads(report), figures),
            f'<p class="small soft">{escape(LEGEND)}</p></section>',
            f"<section><h2>Risk and coverage</h2>{curves(rows)}",
            '<p class="small soft">To the right: the share of questions that are answered, the surest first. Upwards: '
            "the share of these whose quote is wrong. A question that ask refuses counts as wrong, and comes last."
            "</p></section>",
        ],
    )


def curves(rows: Sequence[AnswersRow]) -> str:
    """The risk–coverage curves as SVG, with a key."""
    marks = []
    for number, row in enumerate(rows):
        points = " ".join(f"{x(coverage)},{y(risk)}" for coverage, risk in row.curve)
        name = escape(row_name(row))
        marks.append(
            f'<polyline class="curve" {_colour("stroke", number)} points="{points}"><title>{name}</title></polyline>'
        )
    key = "".join(
        f"<li><span {_colour('color', n)}>■</span> {escape(row_name(row))}</li>" for n, row in enumerate(rows)
    )
    return square(marks, "coverage; upwards: risk", "Risk and coverage") + f'<ul class="small">{key}</ul>'


def _colour(what: str, number: int) -> str:
    return f'style="{what}:var(--c{number % _COLOURS})"'
