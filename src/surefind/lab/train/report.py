"""The reports of `surefind train`: what the terminal and JSON show, and what is saved beside a model or a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from surefind.base.disk.records import from_json
from surefind.base.types import ExamName
from surefind.engine.inference.manifest import FusionManifest
from surefind.engine.llm.trained import saved_prompts, unreadable
from surefind.lab.train.judge import JudgedRow


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
