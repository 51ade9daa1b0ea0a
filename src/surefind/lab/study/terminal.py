"""Prints a study in the terminal: each table, what it says about the paper's findings, and its command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from surefind.lab.study.values import Head

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
