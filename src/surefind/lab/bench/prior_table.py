"""What other collections say about configurations before this one asks a question (`prior.json`).

The table has nDCG@10 differences to the default pipeline on real questions: for retrievers and fusions with their
covariance, and for single changes to the default (a reranker on top, other parameters of BM25, `pair` in its place)
with a variance each.
Most configurations are composed of such parts, so each row of a benchmark is a sum of independent unknowns z:

    θ = A z     z: the table's configurations, the changes, and one unknown for each part that was never measured

    bm25 + dense >> rrf >> cross_encoder      the fusion + the change that the cross-encoder makes
    bm25 + dense(model=mine) >> rrf           an unknown of its own
    another layout                            the pipeline + an unknown that all rows of this layout share

A change was measured on top of the default. On top of another configuration it may do more or less, so an unknown of
its own is added there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from surefind.base.types import Floats
from surefind.engine.search.pipeline import DEPTH, Pipeline
from surefind.lab.bench.prior import Belief

MEASURE = "nDCG@10"
"""The measure of the table."""
_UNKNOWN_SPREAD = 0.05
"""Standard deviation between collections of a part that was not measured."""
_UNKNOWN_QUESTION = 0.25
"""Standard deviation of one question's difference for such a part."""
_INTERPLAY = 0.01
"""Standard deviation of what a measured change does differently on top of another configuration than the default."""
_OTHER_LAYOUT = -0.01
"""Expected difference of another layout than the default, which was best on all four collections that compare layouts
(docs/results/chunking.md)."""
_OTHER_MEASURE = 2.0
"""How much wider the spread between collections is for another measure than the table's."""


@dataclass(frozen=True)
class Known:
    """What is known of the rows of a benchmark, as differences to a reference row."""

    belief: Belief
    per_question: Floats
    """Covariance of one question's differences."""
    against: Floats
    """The matrix that turns scores into differences to the reference."""
    unknown: list[int]
    """The rows with a part that was not measured on other collections."""
    default: int | None
    """The row of the default pipeline, if there is one."""


def collections() -> int:
    """How many collections the table was measured on."""
    return len(_table()["corpora"])


def stamp() -> str:
    """A hash of the table. A report depends on it."""
    return hashlib.blake2b(json.dumps(_table(), sort_keys=True).encode(), digest_size=8).hexdigest()


def known(specs: Sequence[str], layouts: Sequence[str] = (), measure: str = MEASURE) -> Known:
    """Returns what is known of configurations with these pipelines, and layouts if they differ."""
    parts = _Unknowns(_table())
    rows = [parts.of(spec, layout) for spec, layout in zip(specs, layouts or [""] * len(specs), strict=True)]
    mix = np.zeros((len(rows), len(parts.means)))
    for i, row in enumerate(rows):
        for part in row:
            mix[i, part] += 1.0
    against = _against(rows, parts)
    turned = against @ mix
    spread = _OTHER_MEASURE**2 if measure != MEASURE else 1.0
    belief = Belief(turned @ np.array(parts.means), _between(turned, parts.spread()) * spread, collections() - 1)
    unknown = [i for i, row in enumerate(rows) if parts.unmeasured & row]
    default = next((i for i, row in enumerate(rows) if row == {parts.default()}), None)
    return Known(belief, _between(turned, parts.per_question()), against, unknown, default)


class _Unknowns:
    """The independent unknowns that configurations are composed of, numbered as they are needed."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = table
        self._numbers: dict[tuple[str, str], int] = {}
        self.means: list[float] = list(table["mean"])
        self._variances: list[float] = []
        self._question_variances: list[float] = []
        self.unmeasured: set[int] = set()

    def of(self, spec: str, layout: str) -> set[int]:
        """The numbers of the unknowns whose sum is this configuration."""
        base, changes, exact = self._taken_apart(spec)
        if base in self._table["specs"]:
            effects = {self._table["specs"].index(base)} | {self._change(change) for change in changes}
            if not exact or (changes and base != self._table["default"]):
                effects.add(self._own("interplay", spec, 0.0, _INTERPLAY, _INTERPLAY * 5))
        else:
            average = sum(self._table["mean"]) / len(self._table["mean"])
            effects = {self._own("pipeline", spec, average, _UNKNOWN_SPREAD, _UNKNOWN_QUESTION, unmeasured=True)}
        if layout and layout != self._table["layout"]:
            part = self._own("layout", layout, _OTHER_LAYOUT, _UNKNOWN_SPREAD, _UNKNOWN_QUESTION, unmeasured=True)
            effects.add(part)
        return effects

    def spread(self) -> Floats:
        """Covariance of all unknowns between collections."""
        return _blocks(self._table["covariance"], self._variances)

    def per_question(self) -> Floats:
        """Covariance of one question's values of all unknowns."""
        return _blocks(self._table["per_question"], self._question_variances)

    def default(self) -> int:
        return int(self._table["specs"].index(self._table["default"]))

    def _taken_apart(self, spec: str) -> tuple[str, list[str], bool]:
        """A configuration of the table, the changes to it, and whether nothing else differs."""
        if spec in self._table["specs"]:
            return spec, [], True
        pipeline = Pipeline.parse(spec)
        if pipeline.path in self._table["effects"]:
            return self._table["default"], [pipeline.path, *map(str, pipeline.rerank)], pipeline.depth == DEPTH
        usual = {stage.name: stage for stage in Pipeline.parse(self._table["default"]).retrieve}
        changes = [str(stage) for stage in pipeline.rerank]
        kept = []
        for stage in pipeline.retrieve:
            if str(stage) in self._table["effects"]:
                changes.append(str(stage))
                stage = usual[stage.name]
            kept.append(stage)
        base = replace(pipeline, retrieve=tuple(kept), rerank=(), depth=DEPTH)
        return str(base), changes, pipeline.depth == DEPTH

    def _change(self, stage: str) -> int:
        measured = self._table["effects"].get(stage)
        if measured is None:
            return self._own("stage", stage, 0.0, _UNKNOWN_SPREAD, _UNKNOWN_QUESTION, unmeasured=True)
        return self._own("stage", stage, measured["mean"], measured["spread"], measured["question_spread"])

    def _own(
        self, kind: str, key: str, mean: float, spread: float, question: float, *, unmeasured: bool = False
    ) -> int:
        if (kind, key) not in self._numbers:
            self._numbers[kind, key] = len(self.means)
            self.means.append(mean)
            self._variances.append(spread**2)
            self._question_variances.append(question**2)
            if unmeasured:
                self.unmeasured.add(self._numbers[kind, key])
        return self._numbers[kind, key]


def _against(rows: Sequence[set[int]], parts: _Unknowns) -> Floats:
    """Differences to the default pipeline if it is a row, else to the first measured row, else to the mean of all."""
    size = len(rows)
    measured = [i for i, row in enumerate(rows) if not row & parts.unmeasured]
    default = [i for i in measured if rows[i] == {parts.default()}]
    reference = next(iter([*default, *measured]), None)
    weights = np.full(size, 1 / size) if reference is None else np.eye(size)[reference]
    return np.asarray(np.eye(size) - np.outer(np.ones(size), weights))


def _between(mix: Floats, covariance: Floats) -> Floats:
    return np.asarray(mix @ covariance @ mix.T + 1e-9 * np.eye(len(mix)))


def _blocks(first: Sequence[Sequence[float]], variances: Sequence[float]) -> Floats:
    size = len(first)
    matrix = np.zeros((size + len(variances),) * 2)
    matrix[:size, :size] = first
    matrix[range(size, len(matrix)), range(size, len(matrix))] = variances
    return matrix


@cache
def _table() -> dict[str, Any]:
    text = files("surefind.lab.bench").joinpath("prior.json").read_text(encoding="utf-8")
    return dict(json.loads(text))
