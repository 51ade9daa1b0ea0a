"""Compares held-out scores: an interval for each row, and the first row tested against every other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from surefind.base.types import Floats
from surefind.lab.bench.recommendation import chooses
from surefind.lab.exam.model import ExamQuery
from surefind.lab.measure.clusters import Clusters
from surefind.lab.measure.permutation import permutation_p
from surefind.lab.measure.statistics import ALPHA, bootstrap, holm

_NOT_COMPARED = (None, None, None, None)


@dataclass(frozen=True)
class JudgedRow:
    name: str
    spec: str
    mean: float
    low: float
    high: float
    gain: float | None
    """How much better the trained row is than this row; None for the trained row and for oracles."""
    gain_low: float | None
    gain_high: float | None
    p: float | None
    """The p-value of the gain, after Holm's correction over all rows that are compared."""

    @property
    def significant(self) -> bool:
        return self.p is not None and self.p < ALPHA

    @property
    def rounded(self) -> JudgedRow:
        """The row as reports show it."""
        scores = (round(value, 5) for value in (self.mean, self.low, self.high))
        tested = (self.gain, self.gain_low, self.gain_high, self.p)
        return JudgedRow(
            self.name, self.spec, *scores, *(None if value is None else round(value, 5) for value in tested)
        )


def compare(
    trained: tuple[str, str, Floats],
    others: Mapping[tuple[str, str], Floats],
    oracles: Mapping[str, Floats],
    clusters: Clusters | None = None,
) -> list[JudgedRow]:
    """The rows in order: the trained one, the ones it must beat, and the oracles, which no real method can reach.
    `clusters` has the number of each question's gold document."""
    name, spec, scores = trained
    rivals = list(others.values())
    table = np.stack([scores, *rivals, *oracles.values()], axis=1)
    intervals = [(i.mean, i.low, i.high) for i in bootstrap(table, clusters=clusters)]
    differences = scores[:, None] - np.stack(rivals, axis=1)
    gains = bootstrap(differences, clusters=clusters)
    p = holm(permutation_p(differences, clusters)).tolist()
    rows = [JudgedRow(name, spec, *intervals[0], *_NOT_COMPARED)]
    for i, (label, text) in enumerate(others):
        rows.append(JudgedRow(label, text, *intervals[i + 1], gains[i].mean, gains[i].low, gains[i].high, p[i]))
    return rows + [JudgedRow(label, "", *intervals[len(rows) + i], *_NOT_COMPARED) for i, label in enumerate(oracles)]


def refusal(rows: Sequence[JudgedRow], static: int, measure: str, questions: Sequence[ExamQuery]) -> str:
    """Says why there is no recommendation, if no question may choose; else empty. Questions cut from the documents
    favour exact words, and what wins on them loses on real questions (docs/results/exam-validity.md)."""
    if any(map(chooses, questions)):
        return ""
    trained, rival = rows[0], rows[static]
    return (
        f"No recommendation: all {len(questions)} questions repeat the words of their documents, and what is best on "
        f"such questions is often not best on real ones. On them, {trained.name} scores {trained.mean:.3f} and "
        f"{rival.name} {rival.mean:.3f} {measure}. Collect real questions with: surefind exam collect NAME FILE."
    )


def verdict(rows: Sequence[JudgedRow], static: int, measure: str, alone: Sequence[int] = ()) -> tuple[str, str]:
    """A sentence that says whether to use the trained row, and the spec to use. `static` is the row it must beat;
    `alone` are the rows of single retrievers, which need no fusion."""
    trained, rival = rows[0], rows[static]
    single = max((rows[i] for i in alone), key=lambda row: row.mean, default=None)
    if single is not None and single.mean >= max(trained.mean, rival.mean):
        others = f"{trained.name} {trained.mean:.3f}, {rival.name} {rival.mean:.3f}"
        return (
            f"{single.name} alone scores {single.mean:.3f} {measure} on the held-out half, {others}. "
            f"Use {single.name}: it is simpler and no worse.",
            single.spec,
        )
    against = f"{trained.mean:.3f} against {rival.mean:.3f} {measure} on the held-out half"
    if rival.gain is not None and rival.gain > 0 and rival.significant:
        return f"{trained.name} beats {rival.name}: {against} (p = {rival.p:.4f}). Use it.", trained.spec
    if rival.gain is not None and rival.gain < 0:
        how = f"p = {rival.p:.4f}" if rival.significant else "not significantly"
        return f"{rival.name} wins ({how}): {trained.name} scores {against}. Use {rival.name}.", rival.spec
    return (
        f"{trained.name} is statistically tied with {rival.name}: {against} (p = {rival.p:.2f}). "
        f"Use {rival.name}: it is simpler and needs no training.",
        rival.spec,
    )
