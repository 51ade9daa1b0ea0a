"""The reports of `surefind train`: what the terminal and JSON show, and what is saved beside a model or a prompt.

Compares held-out scores: an interval for each row, and the first row tested against every other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from surefind.base.disk.sealed import from_json
from surefind.base.types import ExamName, Floats
from surefind.engine.inference.provenance import FusionManifest
from surefind.engine.llm.trained import saved_prompts, unreadable
from surefind.lab.bench.recommendation import chooses
from surefind.lab.exam.model import ExamQuery
from surefind.lab.measure.statistics import ALPHA, Clusters, bootstrap, holm, permutation_p

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


@dataclass(frozen=True)
class HalfCounts:
    """How many questions trained, and how many tested."""

    tuning: int
    held_out: int


class Judged(Protocol):
    """What all reports with a table have."""

    @property
    def exam(self) -> ExamName: ...
    @property
    def questions(self) -> HalfCounts: ...
    @property
    def measure(self) -> str: ...
    @property
    def rows(self) -> tuple[JudgedRow, ...]: ...


@dataclass(frozen=True, kw_only=True)
class FusionReport(FusionManifest):
    """A trained fusion and how well it did."""

    surefind: str
    created: str
    questions: HalfCounts
    hyperparameters: Mapping[str, Any]
    training_seconds: float
    measure: str
    judged: str
    """The questions of the table."""
    rows: tuple[JudgedRow, ...]
    verdict: str
    use: str
    """The pipeline to use; empty if there is no recommendation."""


@dataclass(frozen=True, kw_only=True)
class WeightsReport:
    """Static weights and how well they did."""

    weights: tuple[float, ...]
    norm: str
    useless: tuple[str, ...]
    """The retrievers that got no weight."""
    spec: str
    exam: ExamName
    questions: HalfCounts
    measure: str
    tuning_mean: float
    rows: tuple[JudgedRow, ...]
    verdict: str
    use: str


@dataclass(frozen=True)
class Losses:
    first: float | None
    last: float | None
    steps: int


@dataclass(frozen=True)
class SearchedBy:
    """A retriever of the pipeline that a model was trained for."""

    spec: str


@dataclass(frozen=True, kw_only=True)
class ModelReport:
    """A trained encoder or reranker and how well it did."""

    name: str
    model: str
    surefind: str
    created: str
    corpus: str
    retrievers: tuple[SearchedBy, ...]
    exam: ExamName
    questions: HalfCounts
    pairs: Mapping[str, int]
    start: str
    hyperparameters: Mapping[str, Any]
    loss: Losses
    training_seconds: float
    measure: str
    rows: tuple[JudgedRow, ...]
    verdict: str
    use: str
    better: bool


# ---------------------------------------------------------------- prompts


@dataclass(frozen=True, kw_only=True)
class PromptReport:
    """What all trained prompts have."""

    name: str
    step: str
    exam: ExamName
    surefind: str
    created: str
    corpus: str
    pipeline: str
    use: str
    """The spec to use; empty if there was nothing to learn, and nothing was saved."""


@dataclass(frozen=True)
class SampledQuestions:
    sampled: int
    reranked: int


@dataclass(frozen=True, kw_only=True)
class PromptFailure:
    """A question that the model ranked badly, and the prompt that it wrote then; "" if it was not usable."""

    query: str
    gap: float
    failure_analysis: str
    system_prompt: str


@dataclass(frozen=True, kw_only=True)
class ListwiseReport(PromptReport):
    """An example and a system prompt for `llm_listwise`."""

    questions: SampledQuestions
    failures: tuple[PromptFailure, ...]
    hardest: str
    system_prompt: str


@dataclass(frozen=True)
class TuningQuestions:
    tuning: int


@dataclass(frozen=True)
class WeighedQuestion:
    query: str
    weights: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class ExamplesReport(PromptReport):
    """Examples for `llm_weights`."""

    questions: TuningQuestions
    examples: tuple[WeighedQuestion, ...]


def prompt_reports(folder: Path) -> list[ListwiseReport | ExamplesReport]:
    """The reports of all trained prompts in the folder of the models."""
    reports: list[ListwiseReport | ExamplesReport] = []
    for path, data in saved_prompts(folder):
        try:
            weighs = data.get("step") == "llm_weights"
            reports.append(from_json(ExamplesReport, data) if weighs else from_json(ListwiseReport, data))
        except ValueError as error:
            raise unreadable(path, error) from None
    return reports
