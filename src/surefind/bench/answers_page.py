"""Shows how good the quotes of `surefind ask` are: the cells of a table, and a page with the curve of risks."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from surefind.bench.left_out import left_out_text
from surefind.bench.plain_page import page, square, table, x, y
from surefind.bench.plan import label
from surefind.bench.terminal import exam_label
from surefind.disk.folders import private_folder
from surefind.disk.sealed import write_sealed

_COLOURS = 8
_HEADINGS = {
    "right": "right",
    "f1": "F1",
    "answered": "answered",
    "precision": "right if answered",
    "precision_at_half": "right in the surer half",
    "aurc": "AURC",
    "unanswerable": "refused if unanswerable",
}
"""The heading of each figure."""
LEGEND = (
    "right: the first quote has the gold answer. F1: words shared with it. AURC: area under the curve of risks, 0 is "
    "best. Brackets: 95% intervals. Pipelines that share a letter are statistically tied (p >= 0.05 after Holm)."
)


def heads(made: Mapping[str, Any]) -> list[str]:
    return [*(_HEADINGS[key] for key in _keys(made)), "tied", "s/question"]


def cells(made: Mapping[str, Any], row: Mapping[str, Any]) -> list[str]:
    return [*(_interval(row[key]) for key in _keys(made)), row["letters"], f"{row['seconds']:.2f}"]


def best_first(made: Mapping[str, Any]) -> list[dict[str, Any]]:
    return sorted(made["rows"], key=lambda row: -row["right"]["mean"])


def row_name(row: Mapping[str, Any]) -> str:
    return label(row["name"], row["aliases"])


def about(made: Mapping[str, Any]) -> str:
    """What was asked, and what was left out."""
    exam = made["exam"]
    text = f"{exam_label(exam)}: {exam['queries']} questions"
    text += f", and {made['unanswerable']} that no document answers." if made["unanswerable"] else "."
    if exam["without_span"]:
        text += f" {exam['without_span']} questions were left out: their gold is a whole document, not a passage."
    return f"{text} {left_out_text(exam)}".rstrip()


def write_answers(made: Mapping[str, Any], folder: Path) -> Path:
    """Writes the figures as JSON and as a page. Returns the path of the page."""
    private_folder(folder)
    write_sealed(folder / "answers.json", made)
    (folder / "answers.html").write_text(render(made), encoding="utf-8")
    return folder / "answers.html"


def render(made: Mapping[str, Any]) -> str:
    """The whole page of what `measure_answers` returns."""
    rows = best_first(made)
    figures = {row_name(row): [cell.replace(", ", ",\u00a0") for cell in cells(made, row)] for row in rows}
    return page(
        "Answers",
        [
            f'<header><p class="kicker">Surefind {escape(made["surefind"])}, {escape(made["created"][:10])}</p>'
            f"<h1>How good are the answers?</h1><p class='rest'>{escape(about(made))}</p>"
            f'<p class="spec">{escape(made["command"])}</p></header>',
            "<section>",
            table("How good the answers are", heads(made), figures),
            f'<p class="small soft">{escape(LEGEND)}</p></section>',
            f"<section><h2>Risk and coverage</h2>{curves(rows)}",
            '<p class="small soft">To the right: the share of questions that are answered, the surest first. Upwards: '
            "the share of these whose quote is wrong. A question that ask refuses counts as wrong, and comes last."
            "</p></section>",
        ],
    )


def curves(rows: list[dict[str, Any]]) -> str:
    """The risk–coverage curves as SVG, with a key."""
    marks = []
    for number, row in enumerate(rows):
        points = " ".join(f"{x(coverage)},{y(risk)}" for coverage, risk in row["curve"])
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


def _keys(made: Mapping[str, Any]) -> list[str]:
    return [key for key in _HEADINGS if key != "unanswerable" or made["unanswerable"]]


def _interval(found: Mapping[str, float] | None) -> str:
    return "–" if found is None else f"{found['mean']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"
