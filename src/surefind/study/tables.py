"""Helpers for the usual table of a study: one row for each configuration, our figures beside those of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from surefind.bench.plan import label
from surefind.study.scores import row_of
from surefind.study.values import Cell, Column, Head, Row

Paper = Mapping[str, Mapping[str, float]]
"""The figures of the paper: row -> column of the paper -> figure."""


def ours(columns: Sequence[Column], measures: Sequence[str], number_format: str = ".3f") -> list[Head]:
    """The headings of our figures: every measure of every collection."""
    return [Head(measure, column.name, format=number_format) for column in columns for measure in measures]


def theirs(names: Sequence[str], measure: str = "", number_format: str = ".3f") -> list[Head]:
    """The headings of the figures that the paper printed, one for each of its data sets."""
    return [Head(measure or name, name if measure else "", paper=True, format=number_format) for name in names]


def measured_rows(
    columns: Sequence[Column],
    stage: str,
    names: Sequence[str],
    measures: Sequence[str],
    paper: Paper,
    paper_names: Sequence[str],
) -> list[Row]:
    """A row for each name: its means in every collection, then the figures of the paper. A configuration that equals
    another one is shown once, with both names."""
    made = []
    seen: set[str] = set()
    for name in names:
        results = [column.results.get(stage, {}) for column in columns]
        found = [row_of(result, name) for result in results]
        first = next((row for row in found if row is not None), None)
        if first is not None and first["spec"] in seen:
            continue
        seen |= {first["spec"]} if first is not None else set()
        cells: list[Cell] = [
            None if row is None else row["measures"][measure]["mean"] for row in found for measure in measures
        ]
        cells += [paper.get(name, {}).get(one) for one in paper_names]
        shown = label(name, [one for one in first["aliases"] if one in names]) if first is not None else name
        made.append(Row(shown, tuple(cells), first["shown"] if first else "", why_left_out(columns, stage, name)))
    return made


def why_left_out(columns: Sequence[Column], stage: str, name: str) -> str:
    """Why a row has no figures of ours; "" if it has some in every collection."""
    reasons = {
        column.name: reason
        for column in columns
        if (reason := column.results.get(stage, {}).get("left_out", {}).get(name))
    }
    if len(reasons) == len(columns):
        return "; ".join(dict.fromkeys(reasons.values()))
    return "; ".join(f"{collection}: {reason}" for collection, reason in reasons.items())


def problems(columns: Sequence[Column], stage: str) -> tuple[str, ...]:
    """Messages about models that failed, as notes below a table."""
    return tuple(
        f"{column.name}: {problem}"
        for column in columns
        for problem in column.results.get(stage, {}).get("problems", [])
    )
