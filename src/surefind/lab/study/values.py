"""What a study reports, as plain values: tables with our figures beside those of the paper, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Cell = float | int | str | None
NEEDS_LLM = "left out: needs a language model (--llm)"
"""Why a row has no figure of ours, if no language model was chosen."""
Chart = Literal["", "bars", "lines", "clouds", "swarm"]
Result = Mapping[str, Any]
"""What a stage found in one collection, as plain data."""


@dataclass(frozen=True)
class Head:
    """The heading of a column of figures."""

    text: str
    group: str = ""
    """The collection that was measured; for a figure of the paper, the paper's data set, or ""."""
    paper: bool = False
    """Whether the column shows figures that the paper printed."""
    format: str = ".3f"
    """How a number is written, as in `format(value, ".3f")`."""

    @property
    def whose(self) -> str:
        """The collection, or the paper and its data set."""
        return " ".join(dict.fromkeys(filter(None, ["paper" if self.paper else "", self.group])))

    @property
    def full(self) -> str:
        return " ".join(dict.fromkeys(filter(None, [self.whose, self.text])))

    def write(self, cell: Cell) -> str:
        if cell is None:
            return "–"
        return cell if isinstance(cell, str) else format(cell, self.format)


@dataclass(frozen=True)
class Row:
    name: str
    cells: tuple[Cell, ...]
    spec: str = ""
    """Our configuration; "" if the row is not a configuration."""
    left_out: str = ""
    """Why the row has no figure of ours."""


@dataclass(frozen=True)
class Support:
    """What one collection says about a finding of the paper."""

    collection: str
    outcome: Literal["agrees", "disagrees", "undecided", "left out"]
    text: str


@dataclass(frozen=True)
class Finding:
    """A finding of the paper, and what our collections say about it."""

    claim: str
    verdicts: tuple[Support, ...]
    paper: bool = True
    """Whether the paper says it; False for a claim about rows of our own."""


@dataclass(frozen=True)
class Cloud:
    """Points of a figure. Both coordinates are between 0 and 1; in a swarm, only the second, which is a colour."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Table:
    number: str
    """As the paper numbers it: "Table II", "Figure 4". "" for a table that the paper describes but does not number."""
    title: str
    heads: tuple[Head, ...]
    rows: tuple[Row, ...]
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    chart: Chart = ""
    """A figure: bars of our columns, one line for each of our columns over the rows, a panel for each cloud, or a row
    of dots for each."""
    clouds: tuple[Cloud, ...] = ()
    drawn: tuple[str, ...] = ()
    """The headings of the columns in the chart, because a chart has one scale; all if empty."""
    stage: str = ""
    """The stage that made it; the engine sets it."""
    command: str = ""
    """The command that makes it again; the engine sets it."""

    @property
    def name(self) -> str:
        return self.number or self.title


@dataclass(frozen=True)
class Column:
    """The results of one collection, by the names of the stages."""

    name: str
    results: Mapping[str, Result]
