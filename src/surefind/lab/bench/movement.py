"""Measures what rerankers changed: how much they moved, and which questions they harmed (the cascade study's tables IV
to VI).

- *Swaps*: how many of the first ten places hold another passage than before; the mean over the questions.
- *Top-1 changed*: the share of questions whose first passage changed.
- *By family*: the mean change of the primary measure within each family of questions; a star marks a change whose
  interval does not contain zero.
- *Degraded*: the questions whose primary measure fell, how many of them contain a number, and their length compared to
  all questions; the worst ones with their text and what moved. *Improved* is reported beside it: a stage is judged by
  both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.base.text.scripts import count_words
from surefind.base.types import Floats, Rankings
from surefind.engine.store.backend import Spans
from surefind.lab.bench.report import FamilyChange, HarmedQuestion, MeanWords, ReportRow, RerankChange
from surefind.lab.bench.reranking import Step
from surefind.lab.exam.clusters import clusters_of
from surefind.lab.exam.model import ExamQuery
from surefind.lab.measure.gains import Judge
from surefind.lab.measure.names import Measure
from surefind.lab.measure.ranks import MEASURES
from surefind.lab.measure.statistics import bootstrap

PLACES = 10
"""Ranks that are compared before and after a reranker."""
_WORST = 10
"""Most degraded questions that a report lists for each reranker."""
_HELD = 0.00005
"""A smaller change of a question's score counts as none: it is a rounding error."""


def swaps(before: Rankings, after: Rankings, places: int = PLACES) -> Floats:
    """For each question, how many of the first `places` ranks hold another passage than before, or none any more."""
    width = min(places, max(before.ids.shape[1], after.ids.shape[1]))
    return np.asarray((_wide(before, width) != _wide(after, width)).sum(axis=1), np.float64)


def top_changed(before: Rankings, after: Rankings) -> NDArray[np.bool_]:
    return np.asarray(_wide(before, 1)[:, 0] != _wide(after, 1)[:, 0])


def _wide(rankings: Rankings, width: int) -> NDArray[np.int64]:
    ids = rankings.ids[:, :width]
    return np.pad(ids, ((0, 0), (0, width - ids.shape[1])), constant_values=-1)


class Movement:
    """Measures the steps of rerankers on an exam."""

    def __init__(
        self,
        queries: Sequence[ExamQuery],
        judge: Judge,
        measure: Measure,
        spans: Spans,
        titles: Mapping[str, str],
    ) -> None:
        self._queries = queries
        self._clusters = clusters_of(queries)
        self._judge = judge
        self._measure = measure
        self._spans = spans
        self._titles = titles

    def of(self, step: Step) -> RerankChange:
        """What a reranker changed. If the primary measure is a gold-span measure, which has no judgments by rank, only
        the moved places are reported."""
        moved = RerankChange(
            stage=step.name,
            swaps=round(float(swaps(step.before, step.after).mean()), 3),
            top1_changed=round(float(top_changed(step.before, step.after).mean()), 4),
            fell_back=step.fell_back,
            why=step.why,
        )
        return moved if self._measure.of_spans else self._judged(moved, step)

    def _judged(self, moved: RerankChange, step: Step) -> RerankChange:
        """Adds what the change did to the scores."""
        gains = [self._judge.gains(ranking, self._measure.level) for ranking in (step.before, step.after)]
        before, after = (np.asarray(MEASURES[self._measure.name](g, self._measure.k), np.float64) for g in gains)
        change = after - before
        firsts = [_first_relevant(g.gains) for g in gains]
        worse = np.flatnonzero(change < -_HELD)
        order = worse[np.argsort(change[worse], kind="stable")][:_WORST].tolist()
        lengths = np.array([count_words(query.text) for query in self._queries])
        numeric = np.array([bool(re.search(r"\d", query.text)) for query in self._queries])
        return replace(
            moved,
            measure=str(self._measure),
            change=bootstrap(change[:, None], clusters=self._clusters)[0],
            families=self._families(change),
            improved=int((change > _HELD).sum()),
            degraded=len(worse),
            queries=len(change),
            degraded_with_numbers=int(numeric[worse].sum()),
            with_numbers=int(numeric.sum()),
            words=MeanWords(_mean(lengths[worse]), _mean(lengths)),
            worst=tuple(
                HarmedQuestion(
                    id=self._queries[q].id,
                    text=self._queries[q].text,
                    family=self._queries[q].family,
                    change=round(float(change[q]), 4),
                    first_relevant=(firsts[0][q], firsts[1][q]),
                    top=(self._passage(step.before, q), self._passage(step.after, q)),
                )
                for q in order
            ),
        )

    def _families(self, change: Floats) -> dict[str, FamilyChange]:
        """The change within each family of questions, since a stage may help one and harm another; empty if there is
        only one family."""
        labels = np.array([query.family for query in self._queries])
        families = sorted(set(labels.tolist()))
        if len(families) < 2:
            return {}
        changes = {}
        for family in families:
            own = labels == family
            interval = bootstrap(change[own][:, None], clusters=self._clusters[own])[0]
            changes[family] = FamilyChange(
                mean=interval.mean, low=interval.low, high=interval.high, queries=int(own.sum())
            )
        return changes

    def _passage(self, rankings: Rankings, q: int) -> str:
        """The title of the first document."""
        ids = rankings.row(q)[0]
        if not len(ids):
            return ""
        document = self._spans.document(int(ids[0]))
        return self._titles.get(document) or document


def _first_relevant(gains: Any) -> list[int | None]:
    return [int(np.argmax(row > 0)) + 1 if (row > 0).any() else None for row in np.asarray(gains)]


def _mean(values: NDArray[Any]) -> float | None:
    return round(float(values.mean()), 1) if len(values) else None


def in_words(row: ReportRow) -> list[str]:
    """A line about each reranker of a report row, for the terminal and Markdown."""
    lines = []
    for moved in row.reranking:
        text = (
            f"{row.name}, {moved.stage}: {moved.swaps:.1f} of the first {PLACES} places and "
            f"{moved.top1_changed:.0%} of the first passages changed"
        )
        if moved.change is not None:
            change = moved.change
            text += (
                f"; {moved.improved} questions better, {moved.degraded} worse of {moved.queries} "
                f"({moved.measure} {change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}])"
            )
        if moved.families:
            changes = (f"{name} {one.mean:+.3f}{'*' if one.clear else ''}" for name, one in moved.families.items())
            text += f"; by family: {', '.join(changes)}"
        if moved.fell_back:
            text += f"; it failed for {moved.fell_back} questions, which kept the ranking before it: {moved.why}"
        lines.append(text)
    return lines
