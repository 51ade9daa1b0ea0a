"""Renders a study as one HTML page without scripts. Everything that comes from documents or models is escaped, and the
page may load nothing from elsewhere.

Draws the figures of a study as SVG: bars, one line for each column, clouds of points, or swarms of dots.

Writes the report of a study as files: a web page, and sealed JSON.

Prints a study in the terminal: each table, what it says about the paper's findings, and its command.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from surefind.base.disk.sealed import private_folder, write_sealed
from surefind.lab.bench.html import template
from surefind.lab.bench.saved import without_folder
from surefind.lab.study.values import Head

_WIDE, _LABEL, _BAR, _GAP = 860, 250, 16, 6
_NUMBER, _LETTERS = 70, 36
"""The room for the number beside a bar, and the letters of a label that have room."""
_TALL, _LEFT, _BOTTOM = 260, 70, 28
_DOTTED = 20
"""Lines over at most this many rows have a dot for each value: the paper's have few."""
_COLOURS = 8
_SIDE, _MARGIN = 260, 34
"""The side of a panel of points, and the room for its labels."""
_SWARM, _SPREAD = 46, 17
"""The height of a row of dots, and how far they spread from its middle."""


def draw(
    kind: str, title: str, heads: Sequence[Head], rows: Sequence[dict[str, Any]], drawn: Sequence[str] = ()
) -> str:
    """The chart of a table's numeric columns, or of those with the headings in `drawn`; "" if there is nothing to
    draw."""
    wanted = [i for i, head in enumerate(heads) if not drawn or head.text in drawn]
    series = [i for i in wanted if any(_number(row["cells"][i]) is not None for row in rows)]
    shown = [row for row in rows if any(_number(row["cells"][i]) is not None for i in series)]
    if not shown:
        return ""
    body = _bars(heads, shown, series) if kind == "bars" else _lines(shown, series)
    key = "".join(f"<span>{_swatch(i)}{escape(heads[at].full)}</span>" for i, at in enumerate(series))
    return f'<figure class="chart" role="img" aria-label="{escape(title)}">{body}<div class="key">{key}</div></figure>'


def _swatch(colour: int) -> str:
    return f'<svg width="12" height="12"><rect width="12" height="12" rx="2" style="{_fill(colour)}"/></svg>'


def _fill(colour: int) -> str:
    return f"fill:var(--c{colour % _COLOURS})"


def _number(cell: Any) -> float | None:
    return float(cell) if isinstance(cell, int | float) else None


def _values(rows: Sequence[dict[str, Any]], series: Sequence[int]) -> list[float]:
    return [value for row in rows for i in series if (value := _number(row["cells"][i])) is not None]


def _bars(heads: Sequence[Head], rows: Sequence[dict[str, Any]], series: Sequence[int]) -> str:
    """Bars to the right of zero, and to the left of it for values below. A row has a bar for each value it has."""
    values = _values(rows, series)
    low, high = min(0.0, *values), max(0.0, *values)
    scale = (_WIDE - _LABEL - (_NUMBER if low == 0 else 2 * _NUMBER)) / ((high - low) or 1.0)
    zero = _LABEL + (0 if low == 0 else _NUMBER) - low * scale
    parts, y = [], 0
    for row in rows:
        parts.append(f'<text x="{_LABEL - 8}" y="{y + 12}" text-anchor="end" class="t">{escape(_short(row))}</text>')
        for colour, at in enumerate(series):
            if (value := _number(row["cells"][at])) is not None:
                parts.append(_bar(value, zero, scale, y, colour, heads[at].write(value)))
                y += _BAR + 1
        y += _GAP
    parts.append(f'<line class="axis" x1="{zero:.1f}" y1="0" x2="{zero:.1f}" y2="{y}"/>')
    return f'<svg viewBox="0 0 {_WIDE} {y}" width="{_WIDE}" height="{y}">{"".join(parts)}</svg>'


def _bar(value: float, zero: float, scale: float, y: int, colour: int, shown: str) -> str:
    wide = max(1.0, abs(value) * scale)
    left = zero if value >= 0 else zero - wide
    beside, anchor = (zero + wide + 6, "start") if value >= 0 else (zero - wide - 6, "end")
    return (
        f'<rect x="{left:.1f}" y="{y}" width="{wide:.1f}" height="{_BAR}" rx="2" style="{_fill(colour)}"/>'
        f'<text x="{beside:.1f}" y="{y + 12}" text-anchor="{anchor}">{escape(shown)}</text>'
    )


def _short(row: dict[str, Any]) -> str:
    name: str = row["name"]
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"


def _lines(rows: Sequence[dict[str, Any]], series: Sequence[int]) -> str:
    values = _values(rows, series)
    low, high = min(values), max(values)
    room = (high - low) or abs(high) or 1.0
    step = (_WIDE - _LEFT - 30) / max(1, len(rows) - 1)
    height = _TALL - _BOTTOM

    def at(i: int, value: float) -> tuple[str, str]:
        return f"{_LEFT + i * step:.1f}", f"{height - (value - low) / room * (height - 12):.1f}"

    parts = [
        f'<text x="{_LEFT - 10}" y="{height}" text-anchor="end">{low:.3g}</text>',
        f'<text x="{_LEFT - 10}" y="14" text-anchor="end">{high:.3g}</text>',
        f'<line class="axis" x1="{_LEFT}" y1="{height}" x2="{_WIDE - 30}" y2="{height}"/>',
    ]
    names = [row["name"][:14] for row in rows]
    every = max(1, math.ceil((7 * max(map(len, names)) + 8) / step))
    parts += [
        f'<text x="{_LEFT + i * step:.1f}" y="{_TALL - 8}" text-anchor="middle">{escape(name)}</text>'
        for i, name in enumerate(names)
        if i % every == 0
    ]
    for colour, column in enumerate(series):
        points = [at(i, value) for i, row in enumerate(rows) if (value := _number(row["cells"][column])) is not None]
        stroke = f"fill:none;stroke:var(--c{colour % _COLOURS});stroke-width:2"
        parts.append(f'<polyline points="{" ".join(map(",".join, points))}" style="{stroke}"/>')
        if len(rows) <= _DOTTED:
            parts += [f'<circle cx="{x}" cy="{y}" r="3" style="{_fill(colour)}"/>' for x, y in points]
    return f'<svg viewBox="0 0 {_WIDE} {_TALL}" width="{_WIDE}" height="{_TALL}">{"".join(parts)}</svg>'


def draw_clouds(title: str, clouds: Sequence[dict[str, Any]]) -> str:
    """A square panel for each cloud, with the diagonal; "" if there are none."""
    if not clouds:
        return ""
    panels = "".join(_panel(cloud, i) for i, cloud in enumerate(clouds))
    return f'<figure class="chart clouds" role="img" aria-label="{escape(title)}">{panels}</figure>'


def _panel(cloud: dict[str, Any], colour: int) -> str:
    def x(value: float) -> str:
        return f"{_MARGIN + value * _SIDE:.1f}"

    def y(value: float) -> str:
        return f"{8 + (1 - value) * _SIDE:.1f}"

    low = 8 + _SIDE
    parts = [
        f'<rect class="frame" x="{_MARGIN}" y="8" width="{_SIDE}" height="{_SIDE}"/>',
        f'<line class="axis" x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}" stroke-dasharray="4 4"/>',
    ]
    for value in (0.0, 0.5, 1.0):
        parts.append(f'<text x="{x(value)}" y="{low + 16}" text-anchor="middle">{value:g}</text>')
        parts.append(f'<text x="{_MARGIN - 6}" y="{float(y(value)) + 4:.1f}" text-anchor="end">{value:g}</text>')
    fill = f"{_fill(colour)};fill-opacity:.45"
    parts += [
        f'<circle cx="{x(star)}" cy="{y(predicted)}" r="3" style="{fill}"/>' for star, predicted in cloud["points"]
    ]
    wide, tall = _MARGIN + _SIDE + 12, low + 24
    drawing = f'<svg viewBox="0 0 {wide} {tall}" width="{wide}" height="{tall}">{"".join(parts)}</svg>'
    return f'<div style="width:{wide}px">{drawing}<p class="small soft">{escape(cloud["name"])}</p></div>'


def draw_swarm(title: str, clouds: Sequence[dict[str, Any]]) -> str:
    """A row of dots for each cloud: to the right of zero what raises the prediction, blue for low and red for high
    values of the feature; "" if there are none."""
    values = [x for cloud in clouds for x, _ in cloud["points"]]
    if not values:
        return ""
    reach = max(map(abs, values)) or 1.0
    middle, scale = (_LABEL + _WIDE) / 2, (_WIDE - _LABEL - 2 * _MARGIN) / (2 * reach)
    tall = _SWARM * len(clouds)
    parts = [f'<line class="axis" x1="{middle:.1f}" y1="0" x2="{middle:.1f}" y2="{tall}"/>']
    for row, cloud in enumerate(clouds):
        y = _SWARM * row + _SWARM / 2
        parts.append(f'<text x="{_LABEL - 8}" y="{y + 4}" text-anchor="end" class="t">{escape(_short(cloud))}</text>')
        for place, (value, level) in enumerate(cloud["points"]):
            apart = (place * 0.618034 % 1 - 0.5) * 2 * _SPREAD  # dots of equal values side by side, the same each time
            shade = f"fill:color-mix(in srgb, #d33 {level:.0%}, #36c);fill-opacity:.6"
            parts.append(f'<circle cx="{middle + value * scale:.1f}" cy="{y + apart:.1f}" r="3" style="{shade}"/>')
    for edge in (-reach, reach):
        parts.append(f'<text x="{middle + edge * scale:.1f}" y="{tall + 16}" text-anchor="middle">{edge:+.3g}</text>')
    high = tall + 24
    drawing = f'<svg viewBox="0 0 {_WIDE} {high}" width="{_WIDE}" height="{high}">{"".join(parts)}</svg>'
    return f'<figure class="chart" role="img" aria-label="{escape(title)}">{drawing}</figure>'


_SLOT = "<!-- study -->"
_TITLE = "<!-- title -->"


def render(report: dict[str, Any]) -> str:
    page = template("surefind.lab.study", "study.html")
    body = "".join([_header(report), _contents(report), '<main class="page" id="main">', *_sections(report), "</main>"])
    return page.replace(_TITLE, escape(report["title"])).replace(_SLOT, body + _footer(report))


def _header(report: dict[str, Any]) -> str:
    facts = "".join(
        f"<div><dt>{escape(column['name'])}: {escape(column['exam'])}, for {escape(column['audience'])}</dt>"
        f"<dd>{column['questions']:,} questions</dd></div>"
        for column in report["collections"]
    )
    return (
        f'<div class="page"><header><p class="kicker">A study repeated with Surefind {escape(report["surefind"])}, '
        f"{escape(report['created'][:10])}</p><h1>{escape(report['title'])}</h1>"
        f'<p class="rest">{escape(report["source"])}</p><dl class="facts">{facts}</dl></header></div>'
    )


def _contents(report: dict[str, Any]) -> str:
    links = "".join(
        f'<li><a href="#t{i}">{escape(table["number"] or table["title"])}</a></li>'
        for i, table in enumerate(report["tables"])
    )
    return f'<nav aria-label="Tables"><div class="page"><ul>{links}</ul></div></nav>'


def _sections(report: dict[str, Any]) -> Iterable[str]:
    for i, table in enumerate(report["tables"]):
        heads = [Head(**head) for head in table["heads"]]
        title = ": ".join(filter(None, [table["number"], table["title"]]))
        yield f'<section id="t{i}"><h2>{escape(title)}</h2><div class="body">'
        if table["chart"] == "clouds":
            yield draw_clouds(title, table["clouds"])
        elif table["chart"] == "swarm":
            yield draw_swarm(title, table["clouds"])
        elif table["chart"]:
            yield draw(table["chart"], title, heads, table["rows"], table["drawn"])
        yield _table(title, heads, table["rows"])
        yield "".join(map(_finding, table["findings"]))
        yield "".join(f'<p class="note">{escape(note)}</p>' for note in table["notes"])
        yield f'<pre class="cmd" tabindex="0"><code>$ {escape(table["command"])}</code></pre></div></section>'


def _table(title: str, heads: Sequence[Head], rows: Sequence[dict[str, Any]]) -> str:
    groups = "".join(
        f'<th class="n group" colspan="{len(list(same))}" scope="colgroup">{escape(whose)}</th>'
        for whose, same in groupby(heads, lambda head: head.whose)
    )
    names = "".join(f'<th class="n{_paper(head)}" scope="col">{escape(head.text)}</th>' for head in heads)
    lines = "".join(_row(heads, row) for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}"><table><thead>'
        f"<tr><th></th>{groups}</tr><tr><th></th>{names}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _paper(head: Head) -> str:
    return " paper" if head.paper else ""


def _row(heads: Sequence[Head], row: dict[str, Any]) -> str:
    spec = f'<span class="spec">{escape(row["spec"])}</span>' if row["spec"] else ""
    left_out = f'<span class="left">{escape(row["left_out"])}</span>' if row["left_out"] else ""
    cells = "".join(
        f'<td class="n{_paper(head)}">{escape(head.write(cell))}</td>'
        for head, cell in zip(heads, row["cells"], strict=True)
    )
    return f'<tr><th class="conf" scope="row"><b>{escape(row["name"])}</b>{spec}{left_out}</th>{cells}</tr>'


def _finding(finding: dict[str, Any]) -> str:
    verdicts = "".join(
        f'<li><span class="tag {_CLASSES[said["outcome"]]}">'
        f"{escape(said['collection'])} {escape(said['outcome'])}</span> "
        f"{escape(said['text'])}</li>"
        for said in finding["verdicts"]
    )
    whose = "The paper" if finding["paper"] else "Surefind"
    return f'<div class="finding"><p><b>{whose}:</b> {escape(finding["claim"])}</p><ul>{verdicts}</ul></div>'


_CLASSES = {"agrees": "good", "disagrees": "bad", "undecided": "", "left out": ""}


def _footer(report: dict[str, Any]) -> str:
    where = report["environment"]
    about = f"Python {where['python']}, {where['platform']}, {where['cores']} cores"
    return (
        f'<footer class="page"><p class="small soft">{escape(about)}. Columns headed “paper” show figures that the '
        "paper printed, for its own documents and questions.</p>"
        f'<pre class="cmd" tabindex="0"><code>$ {escape(report["command"])}</code></pre></footer>'
    )


def write_files(report: dict[str, Any], folder: Path) -> Path:
    """Writes `study.json` and `study.html`. Returns the path of the page."""
    private_folder(folder)
    write_sealed(folder / "study.json", report)
    page = folder / "study.html"
    page.write_text(render(report), encoding="utf-8")
    return page


def folder_of(data: Path, report: dict[str, Any]) -> Path:
    """The folder of a report in the data of a knowledge base."""
    return data / "studies" / f"{report['study']}-{report['created'][:19].replace(':', '')}"


def readable_study(report: dict[str, Any]) -> dict[str, Any]:
    """Returns a report without what its readers may not know: the results of each question, and where the server keeps
    its files."""
    kept = {key: value for key, value in report.items() if key not in ("page", "results")}
    return {**kept, "command": without_folder(report["command"])} if "command" in report else kept


_MAX_COLUMNS = 12
_MARKS = {"agrees": "agrees", "disagrees": "DISAGREES", "undecided": "undecided", "left out": "left out"}


def show(report: dict[str, Any], console: Console) -> None:
    console.print(report["title"], style="bold")
    console.print(report["source"])
    for collection in report["collections"]:
        console.print(f"{collection['name']}: {collection['exam']}, {collection['questions']} questions.")
    for table in report["tables"]:
        _show_table(table, console)


def _show_table(table: dict[str, Any], console: Console) -> None:
    console.print()
    console.print(": ".join(filter(None, [table["number"], table["title"]])), style="bold")
    heads = [Head(**head) for head in table["heads"]]
    shown = _narrow(heads)
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    grid.add_column("", overflow="fold")
    for head in (heads[i] for i in shown):
        grid.add_column(f"{head.whose}\n{head.text}".strip(), justify="right", overflow="fold")
    for row in table["rows"]:
        grid.add_row(row["name"], *(heads[i].write(row["cells"][i]) for i in shown))
    console.print(grid)
    if len(shown) < len(heads):
        console.print(f"{len(heads) - len(shown)} more columns are in the report.")
    for row in table["rows"]:
        if row["left_out"]:
            console.print(f"{row['name']}: {row['left_out']}.", style="yellow")
    for finding in table["findings"]:
        console.print(f"{'The paper' if finding['paper'] else 'Surefind'}: {finding['claim']}")
        for verdict in finding["verdicts"]:
            console.print(f"  {verdict['collection']} {_MARKS[verdict['outcome']]}: {verdict['text']}")
    for note in table["notes"]:
        console.print(note)
    console.print(f"$ {table['command']}", soft_wrap=True)  # one line, to be copied


def _narrow(heads: Sequence[Head]) -> list[int]:
    """The columns that a terminal has room for: all, or the first few of each collection and of the paper."""
    if len(heads) <= _MAX_COLUMNS:
        return list(range(len(heads)))
    groups: dict[str, list[int]] = {}
    for i, head in enumerate(heads):
        groups.setdefault(head.whose, []).append(i)
    each = max(1, _MAX_COLUMNS // len(groups))
    return sorted(i for members in groups.values() for i in members[:each])
