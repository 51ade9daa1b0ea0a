"""Quality over time: the benchmarks of one exam as points of a small chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surefind.lab.study.archive import Rating, Saved

_WIDE, _HIGH, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 190, 44, 12, 12, 30


@dataclass(frozen=True)
class Point:
    """One benchmark."""

    x: float
    y: float
    low: float
    high: float
    label: str
    report: Saved
    row: Rating


@dataclass(frozen=True)
class Chart:
    exam: str
    measure: str
    used: tuple[Point, ...]
    """The quality of the configuration that is in use now."""
    best: tuple[Point, ...]
    """The quality of the best configuration of each benchmark."""
    ticks: tuple[tuple[float, str], ...]
    """Heights and texts of the scale."""
    dates: tuple[tuple[float, str], ...]
    wide: int = _WIDE
    high: int = _HIGH
    left: int = _LEFT
    right: int = _WIDE - _RIGHT

    @property
    def line(self) -> str:
        """The points of the configuration in use, as an SVG polyline has them."""
        return " ".join(f"{point.x},{point.y}" for point in self.used)


def history(reports: Sequence[Saved], exam: str, spec: str, layout: str) -> Chart | None:
    """Returns the chart of an exam's benchmarks, oldest first; None if there are fewer than two."""
    shown = [
        report for report in reversed(reports) if report.kind == "benchmark" and report.title == exam and report.rows
    ]
    shown = [report for report in shown if report.measure == shown[-1].measure]
    if len(shown) < 2:
        return None
    used = [report.row(spec, layout) for report in shown]
    best = [report.best for report in shown]
    drawn = [row for row in (*used, *best) if row is not None]
    bounds = [value for row in drawn for value in (row.mean, row.low, row.high) if value is not None]
    scale = _Scale(min(bounds), max(bounds), len(shown))
    first, last = shown[0], shown[-1]
    until = 10 if first.created[:10] != last.created[:10] else 16
    return Chart(
        exam, last.measure, scale.points(shown, used), scale.points(shown, best), scale.ticks(),
        ((scale.x(0), _date(first, until)), (scale.x(len(shown) - 1), _date(last, until))),
    )  # fmt: skip


def _date(report: Saved, until: int) -> str:
    return report.created[:until].replace("T", " ")


class _Scale:
    def __init__(self, low: float, high: float, count: int) -> None:
        self._low = max(0.0, low - 0.02)
        self._high = min(1.0, max(high + 0.02, self._low + 0.05))
        self._count = count

    def x(self, number: int) -> float:
        return round(_LEFT + 12 + number * (_WIDE - _LEFT - _RIGHT - 24) / max(1, self._count - 1), 1)

    def y(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return round(_HIGH - _BOTTOM - share * (_HIGH - _TOP - _BOTTOM), 1)

    def ticks(self) -> tuple[tuple[float, str], ...]:
        values = [self._low + (self._high - self._low) * step / 3 for step in range(4)]
        return tuple((self.y(value), f"{value:.2f}") for value in values)

    def points(self, reports: Sequence[Saved], rows: Sequence[Rating | None]) -> tuple[Point, ...]:
        found = []
        for number, (report, row) in enumerate(zip(reports, rows, strict=True)):
            if row is not None:
                low, high = (row.mean if end is None else end for end in (row.low, row.high))
                label = f"{report.created[:10]}: {row.name} {row.mean:.3f}"
                found.append(Point(self.x(number), self.y(row.mean), self.y(low), self.y(high), label, report, row))
        return tuple(found)
