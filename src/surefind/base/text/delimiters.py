"""Finds the delimiter of a table in a text, in linear time. Python's own detection takes minutes on a row of quotes."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

DELIMITERS = ",;\t|"
_LOOKED_AT = 50
"""Rows that decide."""
_SAMPLE = 1 << 20
"""Characters that are looked at."""


def find_delimiter(text: str, is_usual: Callable[[str], bool] = lambda name: False) -> str:
    """Returns the delimiter with which the header has a usual name, most rows have as many cells as the header, and
    there are most cells, in this order. Empty if the text is no table."""
    scored = []
    for delimiter in DELIMITERS:
        rows = _first_rows(text, delimiter)
        width = len(rows[0]) if rows else 0
        if width > 1:
            alike = sum(len(row) == width for row in rows) / len(rows)
            named = any(is_usual(cell) for cell in rows[0])
            scored.append((named, round(alike, 1), width, -DELIMITERS.index(delimiter), delimiter))
    best = max(scored, default=None)
    return best[-1] if best and (best[0] or best[1] > 0.5) else ""


def _first_rows(text: str, delimiter: str) -> list[list[str]]:
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text[:_SAMPLE], newline=""), delimiter=delimiter):
            if row:
                rows.append(row)
            if len(rows) == _LOOKED_AT:
                break
    except csv.Error:
        pass
    return rows
