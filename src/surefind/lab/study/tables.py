"""Tables as data: a `TableSpec` names the rows, the columns, the source of each cell and the figures that the paper
printed. `TableSpec.filled` makes the table from the results of all collections. `declared` reads them from a file.

Reads the tables of a study from its TOML file, `studies/<name>.toml`, one `[[tables]]` for each:

    number title stage chart drawn   as in `tables.TableSpec`
    rows         names of rows, or the name of a list of them, or a call that lists them; without, all measured ones
    listed       "distinct": rows that are equal are shown once; "printed": then come the rows that only the paper has
    called       other names of rows; known_as: names in `left_out` and of what was measured
    specs        a mapping of the rows' specs; "measured" for those that were measured; "measured or NAME" for both
    columns      ours    figures: a measure, or `text` with mean (and of), row, at or call; format and group
                 paper   the paper's data sets, each with all `measures`; or heads, one by one
                 call    a function that makes columns of ours
    figures      row -> what the paper printed; "" for a cell that it left empty
    claims       text with better and worse, or with a call; paper = false for a claim of ours
    notes        texts, and calls that write some

Before the tables, `absent` maps the tables and figures of the paper that a study does not make to the reason.

A call names a function of the study's module `_cells`, with its arguments: `{ call = "loss", curve = 0 }`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
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
                (spec_of(columns, stage, _spec_name(known_as, name)) if measured else "")
                or (specs or {}).get(name, ""),
                why_left_out(columns, stage, _spec_name(known_as, name)),
            )
            for name in names
        ]

    return listed


def _spec_name(known_as: str | Mapping[str, str], name: str) -> str:
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


def absent(study: str) -> dict[str, str]:
    """The tables and figures of the paper that the study does not make, with the reason."""
    reasons: dict[str, str] = _file(study).get("absent", {})
    return reasons


def _file(study: str) -> dict[str, Any]:
    name = f"{study.replace('-', '_')}.toml"
    return tomllib.loads(files("surefind.lab.study.studies").joinpath(name).read_text(encoding="utf-8"))


def load_tables(study: str, names: Mapping[str, Any]) -> dict[str, tuple[TableSpec, ...]]:
    """The tables of a study by stage. `names` are the functions and mappings that the file mentions."""
    found: dict[str, tuple[TableSpec, ...]] = {}
    for entry in _file(study)["tables"]:
        made = _TableReader(names, entry).table()
        found[made.stage] = (*found.get(made.stage, ()), made)
    return found


class _TableReader:
    """Reads one table."""

    def __init__(self, names: Mapping[str, Any], entry: Mapping[str, Any]) -> None:
        self._names, self._entry = names, entry
        printed = entry.get("figures", {})
        self._figures = {row: tuple(None if cell == "" else cell for cell in cells) for row, cells in printed.items()}

    def table(self) -> TableSpec:
        entry = self._entry
        return TableSpec(
            entry["number"],
            entry["title"],
            entry["stage"],
            self._rows(),
            tuple(map(self._block, entry["columns"])),
            self._figures,
            tuple(map(self._claim, entry.get("claims", ()))),
            tuple(map(self._note, entry.get("notes", ()))),
            entry.get("chart", ""),
            tuple(entry.get("drawn", ())),
            self._called(entry["clouds"]) if "clouds" in entry else lambda columns: (),
            tuple(entry.get("needs_llm", ())),
        )

    def _called(self, call: Mapping[str, Any]) -> Any:
        return partial(self._names[call["call"]], **{key: value for key, value in call.items() if key != "call"})

    def _rows(self) -> Rows:
        entry, rows = self._entry, self._entry.get("rows")
        if rows is None:
            made: Rows = every_row
        elif isinstance(rows, dict):
            made = self._called(rows)
        else:
            names = self._names[rows] if isinstance(rows, str) else rows
            measured = entry.get("specs", "").startswith("measured")
            other = entry.get("specs", "").removeprefix("measured").removeprefix(" or ")
            specs = self._names[other] if other else {}
            called = entry.get("called", {})
            distinct = entry.get("listed") == "distinct"
            known_as = entry.get("known_as", ROW)
            made = (
                distinct_rows(list(names), called) if distinct else named_rows(names, specs, called, known_as, measured)
            )
        return with_printed(made, self._figures) if entry.get("listed") == "printed" else made

    def _block(self, block: Mapping[str, Any]) -> Ours | Paper:
        form = block.get("format", ".3f")
        if "call" in block:
            made: Ours = self._called(block)()
            return made
        if "ours" in block:
            figures = tuple(self._figure(figure, form) for figure in block["ours"])
            return Ours(lambda result: figures)
        if "heads" in block:
            return Paper(tuple(Head(**{"paper": True, "format": form, **head}) for head in block["heads"]))
        sets, measures = block["paper"], block.get("measures")
        if measures is None:
            return Paper(tuple(Head(name, paper=True, format=form) for name in sets))
        return Paper(tuple(Head(measure, name, True, form) for name in sets for measure in measures))

    def _figure(self, entry: str | Mapping[str, Any], form: str) -> Figure:
        if isinstance(entry, str):
            return Figure(entry, mean_of(entry), form)
        return Figure(entry["text"], self._source(entry), entry.get("format", form), entry.get("group", ""))

    def _source(self, entry: Mapping[str, Any]) -> Source:
        if "mean" in entry:
            return mean_of(entry["mean"], entry.get("of", ROW))
        if "row" in entry:
            return in_row(*entry["row"].split("."))
        if "at" in entry:
            return at(*entry["at"].split("."))
        made: Source = self._called({key: entry[key] for key in entry if key not in ("text", "format", "group")})
        return made

    def _claim(self, claim: Mapping[str, Any]) -> Claim:
        verdict = self._names[claim["call"]] if "call" in claim else beats(claim["better"], claim["worse"])
        return Claim(claim["text"], verdict, claim.get("paper", True))

    def _note(self, note: str | Mapping[str, Any]) -> Note:
        if isinstance(note, str):
            return note
        if note["call"] == "problems":
            return partial(problems, stage=self._entry["stage"])
        made: Note = self._called(note)
        return made
