"""The report of a benchmark: values that the table, the files, the HTML page and HTTP show.

`building` makes it, `saved` writes it to disk and reads it again. Its JSON has the names of these fields
(`disk.records`). Fields that may be None by default are those that not every reader may see, or not every stage has.

The comparison of two runs of the same questions: how far the scores moved, and whether chance explains it.

Its views: `check` compares a run with a saved report, `drift` two generations, `gate` refuses a generation that lost,
`preview` shows what a draft gains and loses, and `parity` compares the indexes of a backend with local ones.

What a report was made with: Python, the machine and the packages that decide results.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from surefind.base.running import usable_cores
from surefind.base.types import Floats
from surefind.lab.bench.latency import Timing
from surefind.lab.bench.recommendation import Recommendation
from surefind.lab.exam.overlap import Leakage
from surefind.lab.measure.statistics import ALPHA, Interval, bootstrap, holm, permutation_p

_PACKAGES = ("numpy", "numba", "onnxruntime", "tokenizers", "surefind-models")


@dataclass(frozen=True)
class Environment:
    python: str
    platform: str
    cores: int
    packages: Mapping[str, str]


def environment() -> Environment:
    return Environment(
        platform.python_version(),
        f"{platform.system()} {platform.machine()}",
        usable_cores(),
        {name: _version(name) for name in _PACKAGES},
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@dataclass(frozen=True, kw_only=True)
class RunDifference:
    """The mean scores of two runs, and their difference."""

    questions: int
    before: float
    after: float
    difference: float
    low: float
    """The 95% interval of the difference is `low` to `high`."""
    high: float
    p: float

    @property
    def failed(self) -> bool:
        """Whether the second run is significantly worse."""
        return self.difference < 0 and self.p < ALPHA

    def lost_more_than(self, margin: float) -> bool:
        """Whether the loss is above the margin, and above what chance explains."""
        return self.high < 0 and -self.difference > margin

    @property
    def figures(self) -> dict[str, Any]:
        """The fields, for a view of this difference that has more."""
        return asdict(self)

    @property
    def summary(self) -> str:
        return (
            f"{self.before:.3f} -> {self.after:.3f}: {self.difference:+.3f}, 95% interval {self.low:+.3f} to "
            f"{self.high:+.3f}, p {self.p:.3f}"
        )


def compare_runs(before: Floats, after: Floats, clusters: NDArray[np.int64] | None = None) -> list[RunDifference]:
    """Compares each column of two tables of scores, (questions, configurations), paired by question."""
    gain = after - before
    means = zip(before.mean(axis=0).tolist(), after.mean(axis=0).tolist(), strict=True)
    tested = zip(bootstrap(gain, clusters=clusters), permutation_p(gain, clusters).tolist(), strict=True)
    return [
        RunDifference(
            questions=len(gain), before=old, after=new, difference=gained.mean, low=gained.low, high=gained.high, p=p
        )
        for (old, new), (gained, p) in zip(means, tested, strict=True)
    ]


View = TypeVar("View", bound=RunDifference)


def corrected(differences: Sequence[View]) -> list[View]:
    """Returns several comparisons with Holm's correction of p."""
    p = holm(np.array([difference.p for difference in differences])).tolist()
    return [replace(difference, p=value) for difference, value in zip(differences, p, strict=True)]


FORMAT = 3
"""Increase it when a field is added, removed or changed. Reports of other formats are not read."""
Means = Mapping[str, Mapping[str, float]]
"""Group of questions -> measure -> mean."""
SampledResult = tuple[float, int | None, tuple[int, ...], tuple[int, ...]]
"""What a configuration found for a question: the score, the rank of the first relevant hit, its hits as places in
`BenchReport.chunks`, and whether each is relevant (1 or 0)."""


@dataclass(frozen=True, kw_only=True)
class ExamFacts:
    """The questions that were asked."""

    name: str
    version: int
    fingerprint: str | None = None
    queries: int
    families: Mapping[str, int]
    dropped: int | None = None
    """Questions that were left out."""
    restricted: int | None = None
    """Those of them whose passages the audience may not read."""

    @property
    def label(self) -> str:
        return f"{self.name} v{self.version}" if self.version else self.name


@dataclass(frozen=True, kw_only=True)
class CorpusFacts:
    """The documents that were searched."""

    documents: int
    withheld: int | None = None
    """Documents that the audience may not read."""
    chunks: int | None = None
    layout: str
    fingerprint: str | None = None


@dataclass(frozen=True, kw_only=True)
class FamilyChange:
    """What a reranker changed within a family of questions."""

    mean: float
    low: float
    high: float
    queries: int

    @property
    def clear(self) -> bool:
        """Whether the interval does not contain zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class MeanWords:
    """The mean number of words of the questions that got worse, and of all."""

    degraded: float | None
    all: float | None


@dataclass(frozen=True, kw_only=True)
class HarmedQuestion:
    """A question that a reranker made worse."""

    id: str
    text: str
    family: str
    change: float
    first_relevant: tuple[int | None, int | None]
    """The rank of the first relevant passage, before and after."""
    top: tuple[str, str]
    """The title of the first document, before and after."""


@dataclass(frozen=True, kw_only=True)
class RerankChange:
    """What a reranker changed. A gold-span measure has no judgments by rank, so only the moved places are known."""

    stage: str
    swaps: float
    top1_changed: float
    fell_back: int
    why: str
    measure: str | None = None
    change: Interval | None = None
    families: Mapping[str, FamilyChange] | None = None
    improved: int | None = None
    degraded: int | None = None
    queries: int | None = None
    degraded_with_numbers: int | None = None
    with_numbers: int | None = None
    words: MeanWords | None = None
    worst: tuple[HarmedQuestion, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ReportRow:
    """A configuration and its results."""

    name: str
    aliases: tuple[str, ...]
    pipeline: str
    spec: str
    measures: Mapping[str, Interval]
    letters: str
    """Rows that share a letter are statistically tied."""
    latency_ms: Timing
    calls: float
    cost_per_1k: float
    families: Means
    bands: Means
    """The same by lexical overlap of the questions with their passages."""
    unjudged: float | None = None
    """The share of its first ten documents that the exam does not judge, and counts as wrong."""
    index_bytes: int | None = None
    reranking: tuple[RerankChange, ...]
    layout: str
    chunks: int | None = None
    ingest_s_per_doc: float | None
    held_out: Mapping[str, Interval]
    scores: tuple[float, ...]
    """The primary measure of each question."""


@dataclass(frozen=True)
class RowComparison:
    """Row `a` against row `b`: how much better a is, with the interval, and p before and after Holm."""

    a: str
    b: str
    difference: float
    low: float
    high: float
    p: float
    p_holm: float


@dataclass(frozen=True, kw_only=True)
class SweepPoint:
    """The primary measure with one weight of the dense ranking."""

    alpha: float
    mean: float
    low: float
    high: float
    families: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class AlphaSweep:
    measure: str
    fuser: str
    points: tuple[SweepPoint, ...]
    star: Interval
    """With the closed-form α* of each question."""
    best: Interval
    """With the best α of each question."""


@dataclass(frozen=True)
class QuotedGold:
    document: str
    title: str
    text: str


@dataclass(frozen=True)
class QuotedChunk:
    document: str
    title: str
    headings: tuple[str, ...]
    text: str


@dataclass(frozen=True, kw_only=True)
class SampledQuestion:
    """A question to look at, with what each configuration found."""

    id: str
    text: str
    family: str
    overlap: float | None
    gold: tuple[QuotedGold, ...]
    results: tuple[SampledResult, ...]


@dataclass(frozen=True, kw_only=True)
class TrainedFusion:
    """What the training of a fusion recorded."""

    name: str
    model: str
    exam: str
    r2: float | None
    alphas: tuple[tuple[float, float, str], ...]
    """α*, the predicted α and the family of questions."""
    importance: Mapping[str, float]
    contributions: str
    """What `importance` is."""


@dataclass(frozen=True)
class ModelCheck:
    """Whether a language model is fit for a step."""

    model: str
    step: str
    verdict: str
    figure: str


@dataclass(frozen=True, kw_only=True)
class BenchReport:
    format: int = FORMAT
    surefind: str
    created: str
    command: str
    audience: str
    groups: tuple[str, ...]
    environment: Environment
    exam: ExamFacts
    corpus: CorpusFacts
    measures: tuple[str, ...]
    primary: str
    confidence: float
    compares_layouts: bool
    rows: tuple[ReportRow, ...]
    query_ids: tuple[str, ...]
    query_texts: tuple[str, ...]
    query_documents: tuple[tuple[str, ...], ...]
    query_clusters: tuple[int, ...]
    winner: str
    ties: tuple[str, ...]
    recommended: str
    recommendation: Recommendation | None
    verdict: str
    """What to use, and what that rests on: a line each."""
    details: tuple[str, ...]
    """What explains the verdict, a paragraph each."""
    comparisons: tuple[RowComparison, ...]
    leakage: Leakage | None
    alpha_sweep: AlphaSweep | None
    memory_bytes: int
    problems: tuple[str, ...]
    queries: tuple[SampledQuestion, ...]
    chunks: tuple[QuotedChunk, ...]
    learned: tuple[TrainedFusion, ...]
    model_checks: tuple[ModelCheck, ...]

    def __post_init__(self) -> None:
        """Raises `ValueError` if parts do not fit together, as in a file of another program."""
        wanted, questions = {self.primary, *self.measures}, len(self.query_ids)
        lists = (self.query_texts, self.query_documents, self.query_clusters, *(row.scores for row in self.rows))
        if any(len(per_question) != questions for per_question in lists):
            raise ValueError("its lists of questions and scores differ in length")
        if any(not wanted <= row.measures.keys() for row in self.rows):
            raise ValueError("a row lacks a measure")

    @property
    def layouts(self) -> set[str]:
        return {row.layout for row in self.rows}

    @property
    def uses_llm(self) -> bool:
        return any(row.calls for row in self.rows)

    @property
    def ordered(self) -> list[ReportRow]:
        """The rows, best first."""
        return sorted(self.rows, key=lambda row: -row.measures[self.primary].mean)
