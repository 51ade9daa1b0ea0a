"""Means by the study's three sets of questions, where an exam has them (`surefind exam write`), or over all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from surefind.study.studies.agentic_kb import _paper as paper
from surefind.study.tables import theirs
from surefind.study.values import Cell, Column, Head, Result
from surefind.types import Floats

ALL = "all"
Groups = dict[str, dict[str, dict[str, float]]]
"""Group -> row -> measure -> mean."""


def groups_of(families: Sequence[str], rows: Mapping[str, Mapping[str, Floats]]) -> Groups:
    """The means of each row over all questions, and over each of the study's sets that the exam has."""
    named = np.array([family.upper() for family in families])
    parts = {ALL: np.full(len(named), True), **{one: named == one for one in paper.SETS}}
    return {
        group: {
            row: {measure: float(values[inside].mean()) for measure, values in scores.items()}
            for row, scores in rows.items()
        }
        for group, inside in parts.items()
        if inside.any()
    }


def by_row(scores: Mapping[str, Floats], names: Sequence[str]) -> dict[str, dict[str, Floats]]:
    """The scores of a stage by row: measure -> (questions, rows) becomes row -> measure -> questions."""
    return {name: {measure: table[:, i] for measure, table in scores.items()} for i, name in enumerate(names)}


def shown(result: Result, key: str, sets: Sequence[str] = paper.SETS) -> list[str]:
    """The groups that a table shows: the study's sets, or all questions if the exam has none of them."""
    there = [one for one in sets if one in result.get(key, {})]
    return there or [ALL]


def heads(columns: Sequence[Column], stage: str, key: str, measures: Sequence[str], sets: Sequence[str]) -> list[Head]:
    """The headings of our figures in each group, then those of the paper."""
    found = []
    for column in columns:
        for group in shown(column.results.get(stage, {}), key, sets):
            found += [Head(measure, column.name if group == ALL else f"{column.name} {group}") for measure in measures]
    return found + [head for one in sets for head in _printed(one, measures)]


def _printed(one: str, measures: Sequence[str]) -> list[Head]:
    return [theirs([one], measure)[0] for measure in measures]


def cells(
    columns: Sequence[Column],
    stage: str,
    key: str,
    row: str,
    measures: Sequence[str],
    sets: Sequence[str],
    printed: Mapping[str, Mapping[str, float]],
) -> tuple[Cell, ...]:
    """The cells of a row below `heads`."""
    found: list[Cell] = []
    for column in columns:
        result: Mapping[str, Any] = column.results.get(stage, {})
        for group in shown(result, key, sets):
            means = result.get(key, {}).get(group, {}).get(row, {})
            found += [means.get(measure) for measure in measures]
    return (*found, *(printed.get(one, {}).get(measure) for one in sets for measure in measures))
