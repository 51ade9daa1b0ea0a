"""Means by the study's three sets of questions, where an exam has them (`surefind exam write`), or over all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from surefind.base.types import Floats
from surefind.lab.study.studies.agentic_kb import _paper as paper

ALL = "all"
Groups = dict[str, dict[str, dict[str, float]]]
"""Group -> row -> measure -> mean."""


def groups_of(families: Sequence[str], rows: Mapping[str, Mapping[str, Floats]]) -> Groups:
    """The means of each row over all questions, and over each of the study's sets that the exam has."""
    named = np.array([family.upper() for family in families])
    parts = {ALL: np.full(len(named), True), **{name: named == name for name in paper.SETS}}
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
