"""Renders the report as one HTML page: a script in `report.html` draws it from the JSON that `render` inserts.

The page contains text of arbitrary documents and is opened from disk or sent by e-mail. So no document may be able to
close the script element that contains it, and the page must not load anything from elsewhere.

Parts of pages without scripts, which load nothing: the page, a table of figures, a square diagram as SVG.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

from surefind.base.disk.sealed import to_json
from surefind.lab.bench.report import BenchReport

_SLOT = '<script type="application/json" id="report">null</script>'
_STYLE = "/* page.css */"
_NOT_DRAWN = ("query_ids", "query_texts", "query_documents", "query_clusters")
"""What the page has no use for."""


def template(package: str, name: str) -> str:
    """A page of a package, with the style that all pages share."""
    page = files(package).joinpath(name).read_text(encoding="utf-8")
    return page.replace(_STYLE, files("surefind.lab.bench").joinpath("page.css").read_text(encoding="utf-8"))


def render(report: BenchReport) -> str:
    """The whole page. Raises ValueError for NaN or infinity, which browsers cannot parse as JSON: use None instead."""
    page = template("surefind.lab.bench", "report.html")
    before, slot, after = page.partition(_SLOT)
    data = {key: value for key, value in to_json(report).items() if key not in _NOT_DRAWN}
    return before + slot.replace("null", _embeddable(data)) + after


def _embeddable(data: Mapping[str, object]) -> str:
    # Plain ASCII leaves no U+2028, U+2029 or lone surrogate; without "<" there is no "</script" and no "<!--".
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


_TITLE, _CONTENT = "<!-- title -->", "<!-- content -->"
_SIZE, _LEFT, _TOP = 320, 44, 12
_WIDE, _HIGH = _LEFT + _SIZE + 20, _TOP + _SIZE + 44


def page(title: str, parts: Sequence[str]) -> str:
    """The whole page. The parts are HTML."""
    made = template("surefind.lab.bench", "plain_page.html").replace(_TITLE, escape(title))
    return made.replace(_CONTENT, "\n".join(parts))


def table(label: str, heads: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """A table with a row for each name. Its texts are plain text."""
    head = "".join(f"<th scope='col'>{escape(text)}</th>" for text in heads)
    cells = {name: "".join(f"<td>{escape(text)}</td>" for text in row) for name, row in rows.items()}
    body = "".join(f"<tr><th scope='row'>{escape(name)}</th>{row}</tr>" for name, row in cells.items())
    made = f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{made}</div>'


def square(marks: Sequence[str], caption: str, label: str) -> str:
    """A diagram of two shares, each from 0 to 1, with these SVG marks in it. `x` and `y` place them."""
    lines = [line("axis", (0, 0), (1, 0)), line("axis", (0, 0), (0, 1))]
    for share in (0, 0.5, 1):
        lines.append(f'<text x="{x(share)}" y="{y(0) + 16:.1f}" text-anchor="middle">{share:g}</text>')
        lines.append(f'<text x="{x(0) - 6:.1f}" y="{y(share) + 4:.1f}" text-anchor="end">{share:g}</text>')
    lines.append(f'<text x="{x(0.5)}" y="{_HIGH - 6}" text-anchor="middle">{escape(caption)}</text>')
    size = f'viewBox="0 0 {_WIDE} {_HIGH}" width="{_WIDE}" height="{_HIGH}"'
    drawn = "".join([*lines, *marks])
    return f'<figure><svg {size} role="img" aria-label="{escape(label)}">{drawn}</svg></figure>'


def line(kind: str, start: tuple[float, float], end: tuple[float, float]) -> str:
    """A straight line between two points of a square diagram."""
    return f'<line class="{kind}" x1="{x(start[0])}" y1="{y(start[1])}" x2="{x(end[0])}" y2="{y(end[1])}"/>'


def x(share: float) -> float:
    return round(_LEFT + share * _SIZE, 1)


def y(share: float) -> float:
    return round(_TOP + (1 - share) * _SIZE, 1)
