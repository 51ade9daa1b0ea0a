"""Tables as data: a `TableSpec` names the rows, the columns, the source of each cell and the figures that the paper
printed. `TableSpec.filled` makes the table from the results of all collections. `declared` reads them from a file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from surefind.lab.bench.plan import label
from surefind.lab.study.scores import judge, mean, row_of
from surefind.lab.study.values import NEEDS_LLM, Cell, Chart, Cloud, Column, Finding, Head, Result, Row, Support, Table

Columns = Sequence[Column]
Source = Callable[[Result, str], Cell]
"""Reads our figure of a row from what the table's stage measured in one collection."""
Rows = Callable[[Columns, str], "Sequence[TableLine]"]
"""Lists the rows of a table, given the collections and the name of the table's stage."""
Note = str | Callable[[Columns], Sequence[str]]
Printed = Mapping[str, Sequence[Cell]]
"""Row -> the figures that the paper printed, in the order of their headings."""
ROW = "{row}"
"""Stands for the name of the row, where a source looks something up."""


# ---------------------------------------------------------------- rows


@dataclass(frozen=True)
class TableLine:
    """A row before its cells are read."""

    key: str
    """The name under which the sources of the cells know it."""
    name: str = ""
    """What the table shows; "" for the key."""
    spec: str = ""
    left_out: str = ""
    cells: tuple[Cell, ...] | None = None
    """All cells, in a table whose rows are not looked up by name."""


def named_rows(
    names: Collection[str],
    specs: Mapping[str, str] | None = None,
    called: Mapping[str, str] | None = None,
    known_as: str | Mapping[str, str] = ROW,
    measured: bool = True,
) -> Callable[[Columns, str], list[TableLine]]:
    """A row for each name, shown as `called` says, with its spec: the one that was measured (if `measured`), or else
    that of `specs`. It and the reason why a row was left out are looked up as `known_as` says."""

    def listed(columns: Columns, stage: str) -> list[TableLine]:
        return [
            TableLine(
                name,
                (called or {}).get(name, name),
                (spec_of(columns, stage, _known(known_as, name)) if measured else "") or (specs or {}).get(name, ""),
                why_left_out(columns, stage, _known(known_as, name)),
            )
            for name in names
        ]

    return listed


def _known(known_as: str | Mapping[str, str], name: str) -> str:
    return known_as.replace(ROW, name) if isinstance(known_as, str) else known_as.get(name, name)


def distinct_rows(names: Sequence[str], called: Mapping[str, str]) -> Rows:
    """A row for each configuration: one that equals another is shown once, with both names."""

    def listed(columns: Columns, stage: str) -> list[TableLine]:
        lines: list[TableLine] = []
        seen: set[str] = set()
        for name in names:
            row = first_row(columns, stage, name)
            if row is not None and row["spec"] in seen:
                continue
            seen |= {row["spec"]} if row is not None else set()
            shown = name if row is None else label(name, [alias for alias in row["aliases"] if alias in names])
            why = why_left_out(columns, stage, name)
            lines.append(TableLine(name, called.get(shown, shown), row["shown"] if row else "", why))
        return lines

    return listed


def with_printed(rows: Rows, printed: Printed) -> Rows:
    """These rows, then those that only the paper has."""

    def listed(columns: Columns, stage: str) -> list[TableLine]:
        lines = rows(columns, stage)
        ours = {line.key for line in lines}
        return [*lines, *(TableLine(name) for name in printed if name not in ours)]

    return listed


def every_row(columns: Columns, stage: str) -> list[TableLine]:
    """All rows that were measured or left out."""
    results = [column.results.get(stage, {}) for column in columns]
    rows = [item for result in results for item in result.get("rows", {}).items()]
    names = [name for key, row in rows for name in (key, *row["aliases"])]
    names += [name for result in results for name in result.get("left_out", {})]
    return named_rows(dict.fromkeys(names))(columns, stage)


def first_row(columns: Columns, stage: str, name: str) -> dict[str, Any] | None:
    """What was measured under this name in the first collection that has it."""
    rows = (row_of(column.results.get(stage, {}), name) for column in columns)
    return next((row for row in rows if row is not None), None)


def spec_of(columns: Columns, stage: str, name: str) -> str:
    row = first_row(columns, stage, name)
    return "" if row is None else str(row["shown"])


def why_left_out(columns: Columns, stage: str, name: str) -> str:
    """Why a row has no figures of ours; "" if it has some in every collection."""
    reasons = {
        column.name: reason
        for column in columns
        if (reason := column.results.get(stage, {}).get("left_out", {}).get(name))
    }
    if len(reasons) == len(columns):
        return "; ".join(dict.fromkeys(reasons.values()))
    return "; ".join(f"{collection}: {reason}" for collection, reason in reasons.items())


# ---------------------------------------------------------------- columns


@dataclass(frozen=True)
class Figure:
    """A figure of ours: its heading, and where its cells come from."""

    text: str
    source: Source
    format: str = ".3f"
    group: str = ""
    """What follows the name of the collection in the heading."""


@dataclass(frozen=True)
class Ours:
    """Columns of ours: all figures for the first collection, then for the next."""

    figures: Callable[[Result], Sequence[Figure]]

    def heads(self, columns: Columns, stage: str) -> list[Head]:
        return [
            Head(figure.text, f"{column.name}{figure.group}", format=figure.format)
            for column in columns
            for figure in self.figures(column.results.get(stage, {}))
        ]

    def cells(self, columns: Columns, stage: str, row: str) -> list[Cell]:
        results = [column.results.get(stage, {}) for column in columns]
        return [figure.source(result, row) for result in results for figure in self.figures(result)]


@dataclass(frozen=True)
class Paper:
    """Columns with the figures of the paper."""

    titles: tuple[Head, ...]


def mean_of(measure: str, name: str = ROW) -> Source:
    """The mean of what was measured under a name."""
    return lambda result, row: mean(result, name.replace(ROW, row), measure)


def at(*path: str) -> Source:
    """The value at a path of the result."""
    return lambda result, row: _follow(result, [key.replace(ROW, row) for key in path])


def in_row(*path: str) -> Source:
    """The value at a path of what was measured under the row's name, or of which that name is an alias."""
    return lambda result, row: _follow(row_of(result, row) or {}, path)


def _follow(data: Any, path: Sequence[str]) -> Any:
    for key in path:
        data = data.get(key, {})
    return None if data == {} else data


# ---------------------------------------------------------------- claims, notes


@dataclass(frozen=True)
class Claim:
    """A claim about the figures, and how a collection is asked whether it agrees."""

    text: str
    verdict: Callable[[Column, str], Support]
    paper: bool = True
    """Whether the paper says it."""


def beats(better: str, worse: str) -> Callable[[Column, str], Support]:
    """Whether one row is better than another by the primary measure."""
    return lambda column, stage: judge(column, stage, better, worse)


def problems(columns: Columns, stage: str) -> list[str]:
    """Messages about models that failed, as notes below a table."""
    return [
        f"{column.name}: {problem}"
        for column in columns
        for problem in column.results.get(stage, {}).get("problems", [])
    ]


# ---------------------------------------------------------------- the table


@dataclass(frozen=True)
class TableSpec:
    number: str
    title: str
    stage: str
    """The stage whose results it shows."""
    rows: Rows
    columns: tuple[Ours | Paper, ...]
    figures: Printed = field(default_factory=dict)
    """The cells of the columns of the paper."""
    claims: tuple[Claim, ...] = ()
    notes: tuple[Note, ...] = ()
    chart: Chart = ""
    drawn: tuple[str, ...] = ()
    clouds: Callable[[Columns], tuple[Cloud, ...]] = lambda columns: ()
    needs_llm: tuple[str, ...] = ()
    """The rows that need a language model: those without a figure of ours say so."""

    @property
    def name(self) -> str:
        return self.number or self.title

    def filled(self, columns: Columns) -> Table:
        """The table with its cells, its findings and its notes."""
        heads = [
            head
            for block in self.columns
            for head in (block.titles if isinstance(block, Paper) else block.heads(columns, self.stage))
        ]
        notes = [text for note in self.notes for text in ([note] if isinstance(note, str) else note(columns))]
        return Table(
            self.number,
            self.title,
            tuple(heads),
            tuple(self._row(columns, line) for line in self.rows(columns, self.stage)),
            tuple(self._finding(columns, claim) for claim in self.claims),
            tuple(notes),
            self.chart,
            self.clouds(columns),
            self.drawn,
        )

    def _row(self, columns: Columns, line: TableLine) -> Row:
        ours: list[Cell] = []
        cells: list[Cell] = []
        for block in self.columns if line.cells is None else ():
            if isinstance(block, Paper):
                cells += self.figures.get(line.key, [None] * len(block.titles))
            else:
                read = block.cells(columns, self.stage, line.key)
                ours, cells = ours + read, cells + read
        asks = line.key in self.needs_llm and all(cell is None for cell in ours)
        left_out = line.left_out or (NEEDS_LLM if asks else "")
        return Row(line.name or line.key, tuple(cells if line.cells is None else line.cells), line.spec, left_out)

    def _finding(self, columns: Columns, claim: Claim) -> Finding:
        return Finding(claim.text, tuple(claim.verdict(column, self.stage) for column in columns), claim.paper)
