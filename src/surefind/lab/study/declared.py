"""Reads the tables of a study from its TOML file, `studies/<name>.toml`, one `[[tables]]` for each:

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
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from typing import Any

from surefind.lab.study import tables
from surefind.lab.study.tables import Claim, Figure, Ours, Paper, Rows, Source, TableSpec
from surefind.lab.study.values import Head


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
            made: Rows = tables.every_row
        elif isinstance(rows, dict):
            made = self._called(rows)
        else:
            names = self._names[rows] if isinstance(rows, str) else rows
            measured = entry.get("specs", "").startswith("measured")
            other = entry.get("specs", "").removeprefix("measured").removeprefix(" or ")
            specs = self._names[other] if other else {}
            called = entry.get("called", {})
            distinct = entry.get("listed") == "distinct"
            known_as = entry.get("known_as", tables.ROW)
            made = (
                tables.distinct_rows(list(names), called)
                if distinct
                else tables.named_rows(names, specs, called, known_as, measured)
            )
        return tables.with_printed(made, self._figures) if entry.get("listed") == "printed" else made

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
            return Figure(entry, tables.mean_of(entry), form)
        return Figure(entry["text"], self._source(entry), entry.get("format", form), entry.get("group", ""))

    def _source(self, entry: Mapping[str, Any]) -> Source:
        if "mean" in entry:
            return tables.mean_of(entry["mean"], entry.get("of", tables.ROW))
        if "row" in entry:
            return tables.in_row(*entry["row"].split("."))
        if "at" in entry:
            return tables.at(*entry["at"].split("."))
        made: Source = self._called({key: entry[key] for key in entry if key not in ("text", "format", "group")})
        return made

    def _claim(self, claim: Mapping[str, Any]) -> Claim:
        verdict = self._names[claim["call"]] if "call" in claim else tables.beats(claim["better"], claim["worse"])
        return Claim(claim["text"], verdict, claim.get("paper", True))

    def _note(self, note: str | Mapping[str, Any]) -> tables.Note:
        if isinstance(note, str):
            return note
        if note["call"] == "problems":
            return partial(tables.problems, stage=self._entry["stage"])
        made: tables.Note = self._called(note)
        return made
