"""Shows a calibration of confidence as one HTML page with reliability diagrams. It has no scripts and loads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from surefind.bench.html import template

_SLOT = "<!-- confidence -->"
_SIZE, _LEFT, _TOP = 320, 44, 12
_WIDE, _HIGH = _LEFT + _SIZE + 20, _TOP + _SIZE + 44


def render(made: Mapping[str, Any]) -> str:
    """The whole page of what `calibrate_confidence` returns."""
    rows = [("Calibrated", made["held_out"]), ("Built-in", made["builtin"])]
    questions = made["questions"]
    parts = [
        f'<header><p class="kicker">Surefind {escape(made["surefind"])}, {escape(made["created"][:10])}</p>'
        f"<h1>How sure is a search?</h1><p class='rest'>{escape(sentence(made))}</p>"
        f'<p class="spec">{escape(made["pipeline"])}</p></header>',
        f"<section><p>{escape(made['exam']['name'])}: {questions['exam']} questions, and "
        f"{questions['unanswerable']} that no document answers. Each of the"
        f" {made['held_out']['searches']} searches is judged by a fit without its question. Right: "
        f"{escape(made['success'])}.</p>",
        _table(rows),
        "</section>",
        '<div class="beside">',
        *(f"<section><h2>{escape(name)}</h2>{diagram(found['bins'], name)}</section>" for name, found in rows),
        "</div>",
        '<p class="small soft">A circle is a tenth of the searches. On the dashed line, a search that says 0.7 is '
        "right in 70% of the cases; above it, searches are more often right than they say.</p>",
    ]
    return template("surefind.calibrate", "page.html").replace(_SLOT, "\n".join(parts))


def sentence(made: Mapping[str, Any]) -> str:
    """How well the confidence holds on the held-out questions."""
    found, before = made["held_out"], made["builtin"]
    return (
        f"On held-out questions the confidence is off by {found['error']:.3f} on average (expected calibration error; "
        f"a perfect one would show {found['error_by_chance']:.3f}). The built-in confidence is off by "
        f"{before['error']:.3f}."
    )


def diagram(bins: Sequence[Mapping[str, Any]], label: str) -> str:
    """A reliability diagram as SVG: predicted probability to the right, observed share of right first hits upwards."""
    lines = [
        f'<line class="axis" x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(0)}"/>',
        f'<line class="axis" x1="{_x(0)}" y1="{_y(0)}" x2="{_x(0)}" y2="{_y(1)}"/>',
        f'<line class="even" x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}"/>',
    ]
    for share in (0, 0.5, 1):
        lines.append(f'<text x="{_x(share)}" y="{_y(0) + 16:.1f}" text-anchor="middle">{share:g}</text>')
        lines.append(f'<text x="{_x(0) - 6:.1f}" y="{_y(share) + 4:.1f}" text-anchor="end">{share:g}</text>')
    caption = "confidence; upwards: share of right first hits"
    lines.append(f'<text x="{_x(0.5)}" y="{_HIGH - 6}" text-anchor="middle">{caption}</text>')
    for one in bins:
        lines.append(
            f'<circle cx="{_x(one["predicted"])}" cy="{_y(one["observed"])}" r="6" style="fill:var(--c0)">'
            f"<title>said {one['predicted']:.2f}, was {one['observed']:.2f}, {one['count']} searches</title></circle>"
        )
    size = f'viewBox="0 0 {_WIDE} {_HIGH}" width="{_WIDE}" height="{_HIGH}"'
    return f'<figure><svg {size} role="img" aria-label="{escape(label)}">{"".join(lines)}</svg></figure>'


def _table(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    heads = ("calibration error", "of a perfect one", "Brier score", "AUC", "mean confidence", "right")
    keys = ("error", "error_by_chance", "brier", "auc", "mean", "observed")
    cells = {name: "".join(f"<td>{_figure(found[key])}</td>" for key in keys) for name, found in rows}
    body = "".join(f"<tr><th scope='row'>{escape(name)}</th>{row}</tr>" for name, row in cells.items())
    head = "".join(f"<th scope='col'>{head}</th>" for head in heads)
    table = f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="How well the confidence holds">{table}</div>'


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _x(share: float) -> float:
    return round(_LEFT + share * _SIZE, 1)


def _y(share: float) -> float:
    return round(_TOP + (1 - share) * _SIZE, 1)
