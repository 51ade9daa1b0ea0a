"""Draws the figures of a study as SVG: horizontal bars, one line for each column, or clouds of points."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from surefind.study.values import Head

_WIDE, _LABEL, _BAR, _GAP = 720, 230, 16, 6
_TALL, _LEFT, _BOTTOM = 260, 48, 28
_COLOURS = 8
_SIDE, _MARGIN = 190, 34
"""The side of a panel of points, and the room for its labels."""


def draw(kind: str, title: str, heads: Sequence[Head], rows: Sequence[dict[str, Any]]) -> str:
    """The chart of a table's numeric columns; "" if there is nothing to draw."""
    series = [i for i, head in enumerate(heads) if any(_number(row["cells"][i]) is not None for row in rows)]
    values = [value for row in rows for i in series if (value := _number(row["cells"][i])) is not None]
    if not values:
        return ""
    body = _bars(heads, rows, series, max(values)) if kind == "bars" else _lines(rows, series, values)
    key = "".join(f"<span>{_swatch(i)}{escape(heads[at].full)}</span>" for i, at in enumerate(series))
    return f'<figure class="chart" role="img" aria-label="{escape(title)}">{body}<div class="key">{key}</div></figure>'


def _swatch(colour: int) -> str:
    return f'<svg width="12" height="12"><rect width="12" height="12" rx="2" style="{_fill(colour)}"/></svg>'


def _fill(colour: int) -> str:
    return f"fill:var(--c{colour % _COLOURS})"


def _number(cell: Any) -> float | None:
    return float(cell) if isinstance(cell, int | float) else None


def _bars(heads: Sequence[Head], rows: Sequence[dict[str, Any]], series: Sequence[int], most: float) -> str:
    parts, y = [], 0
    scale = (_WIDE - _LABEL - 70) / (most or 1.0)
    for row in rows:
        parts.append(
            f'<text x="{_LABEL - 8}" y="{y + 12}" text-anchor="end" class="t">{escape(row["name"][:38])}</text>'
        )
        for colour, at in enumerate(series):
            value = _number(row["cells"][at])
            if value is not None:
                wide = max(1.0, value * scale)
                shown = escape(heads[at].write(value))
                parts.append(
                    f'<rect x="{_LABEL}" y="{y}" width="{wide:.1f}" height="{_BAR}" rx="2" '
                    f'style="{_fill(colour)}"/>'
                    f'<text x="{_LABEL + wide + 6:.1f}" y="{y + 12}">{shown}</text>'
                )
            y += _BAR + 1
        y += _GAP
    return f'<svg viewBox="0 0 {_WIDE} {max(y, 1)}" width="{_WIDE}" height="{max(y, 1)}">{"".join(parts)}</svg>'


def _lines(rows: Sequence[dict[str, Any]], series: Sequence[int], values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    room = (high - low) or abs(high) or 1.0
    step = (_WIDE - _LEFT - 20) / max(1, len(rows) - 1)
    height = _TALL - _BOTTOM

    def at(i: int, value: float) -> str:
        return f"{_LEFT + i * step:.1f},{height - (value - low) / room * (height - 12):.1f}"

    parts = [
        f'<text x="{_LEFT - 6}" y="{height}" text-anchor="end">{low:.3g}</text>',
        f'<text x="{_LEFT - 6}" y="14" text-anchor="end">{high:.3g}</text>',
        f'<line class="axis" x1="{_LEFT}" y1="{height}" x2="{_WIDE - 20}" y2="{height}"/>',
    ]
    every = max(1, len(rows) // 8)
    parts += [
        f'<text x="{_LEFT + i * step:.1f}" y="{_TALL - 8}" text-anchor="middle">{escape(row["name"][:14])}</text>'
        for i, row in enumerate(rows)
        if i % every == 0
    ]
    for colour, column in enumerate(series):
        points = [at(i, value) for i, row in enumerate(rows) if (value := _number(row["cells"][column])) is not None]
        stroke = f"fill:none;stroke:var(--c{colour % _COLOURS});stroke-width:2"
        parts.append(f'<polyline points="{" ".join(points)}" style="{stroke}"/>')
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
    parts += [f'<circle cx="{x(star)}" cy="{y(found)}" r="3" style="{fill}"/>' for star, found in cloud["points"]]
    wide, tall = _MARGIN + _SIDE + 12, low + 24
    return (
        f'<div><svg viewBox="0 0 {wide} {tall}" width="{wide}" height="{tall}">{"".join(parts)}</svg>'
        f'<p class="small soft">{escape(cloud["name"])} ({len(cloud["points"])} points)</p></div>'
    )
