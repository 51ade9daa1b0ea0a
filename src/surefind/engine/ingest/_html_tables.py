"""Changes HTML tables into tables that Markdown can express: a grid of plain cells whose first row is the header.

A cell that spans rows is repeated in each of them, so that every row makes sense alone. A table inside a cell becomes
text. A table that only arranges things on the page, as in e-mails, is dissolved.
"""

from __future__ import annotations

from copy import copy
from typing import Any

_HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
_CELLS = ["td", "th"]
_WRAPPERS = ["thead", "tbody", "tfoot"]
_DEEPEST = 30
"""Levels of tables in tables. E-mails have about ten."""
_PRESENTATION_ROLES = ("presentation", "none")


def tidy_tables(element: Any) -> None:
    """Simplifies all tables in an element, the outermost first. Changes the soup."""
    _flatten(element)
    for table in element("table"):
        if not table.get_text(strip=True):
            table.extract()
        elif _is_presentational(table):
            _dissolve(table)
        elif table.find_parent(_CELLS):
            table.replace_with(f" {_as_text(table)} ")
        else:
            _straighten(table)


def _flatten(element: Any) -> None:
    """Dissolves tables that are nested too deeply, with everything inside them: each level is read once for every level
    above it. Makes the spans of cells plain numbers, which the Markdown converter expects."""
    for table in element("table"):
        if table.name == "table" and len(table.find_parents("table", limit=_DEEPEST)) == _DEEPEST:
            for part in (table, *table(["table", *_WRAPPERS, "caption", "tr", *_CELLS])):
                part.name = "div"
    for cell in element(_CELLS, colspan=True):
        cell["colspan"] = str(_span(cell, "colspan"))


def _is_presentational(table: Any) -> bool:
    """Whether a table only arranges things on the page."""
    rows = _rows(table)
    if str(table.get("role") or "").lower() in _PRESENTATION_ROLES or table.find(_HEADINGS):
        return True
    if table.find("th"):
        return False
    inside = sum(len(inner.get_text()) for inner in table("table") if inner.find_parent("table") is table)
    if rows and rows[0].find("table") and inside > len(table.get_text()) / 2:
        return True
    return all(sum(1 for cell in _cells(row) if cell.get_text(strip=True)) <= 1 for row in rows)


def _dissolve(table: Any) -> None:
    """Turns a table and its cells into plain blocks."""
    own = [part for part in table([*_WRAPPERS, "caption", "tr", *_CELLS]) if part.find_parent("table") is table]
    for part in (table, *own):
        part.name = "div"


def _straighten(table: Any) -> None:
    """Makes a table a plain grid: the caption goes in front of it, empty rows go away, spanning cells are repeated."""
    for caption in table("caption"):
        caption.name = "p"
        table.insert_before(caption.extract())
    for part in table([*_WRAPPERS, "colgroup", "col"]):
        part.unwrap()
    for row in _rows(table):
        if not _cells(row):
            row.extract()
    _fill_rows(table)


def _fill_rows(table: Any) -> None:
    """Repeats a cell in the rows that it spans."""
    spanning: dict[int, tuple[Any, int]] = {}
    for row in _rows(table):
        column = 0
        for cell in [*_cells(row), None]:
            while column in spanning:
                above, left = spanning.pop(column)
                again = copy(above)
                row.append(again) if cell is None else cell.insert_before(again)
                if left > 1:
                    spanning[-1 - column] = above, left - 1  # for the next row
                column += _span(above, "colspan")
            if cell is not None:
                if (rows := _span(cell, "rowspan")) > 1:
                    spanning[-1 - column] = cell, rows - 1
                column += _span(cell, "colspan")
        spanning = {-1 - at if at < 0 else at: kept for at, kept in spanning.items()}


def _as_text(table: Any) -> str:
    """Writes a table as text: `Season, Extra; Summer, +20%`."""
    lines = (", ".join(filter(None, (" ".join(c.get_text(" ").split()) for c in _cells(row)))) for row in _rows(table))
    return "; ".join(filter(None, lines))


def _rows(table: Any) -> list[Any]:
    return [row for row in table("tr") if row.find_parent("table") is table]


def _cells(row: Any) -> list[Any]:
    return list(row.find_all(_CELLS, recursive=False))


def _span(cell: Any, name: str) -> int:
    given = str(cell.get(name) or "1")
    return max(1, min(1000, int(given[:9]))) if given.isdecimal() else 1
