"""The reports of `surefind calibrate`: values that the terminal, the page and JSON show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from surefind.base.disk.records import from_json
from surefind.base.disk.sealed import read_sealed
from surefind.base.errors import UsageError
from surefind.base.types import Effort, ExamName
from surefind.engine.confidence.answering import FORMAT, SavedConfidence
from surefind.engine.confidence.measures import When
from surefind.engine.confidence.saved import SavedThreshold
from surefind.lab.measure.reliability import Bin
from surefind.lab.measure.thresholds import Rule

# ---------------------------------------------------------------- confidence


@dataclass(frozen=True)
class ConfidenceQuestions:
    """How many questions were asked."""

    exam: int
    unanswerable: int
    dropped: int


@dataclass(frozen=True)
class MeanConfidence:
    """How sure searches are on average for questions with an answer."""

    held_out: float
    builtin: float


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """How well probabilities hold on questions."""

    searches: int
    error: float
    error_by_chance: float
    brier: float
    auc: float | None
    mean: float
    observed: float
    bins: tuple[Bin, ...]


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A `min_confidence`, and what it hides and shows."""

    target: float
    min_confidence: float
    right_hidden: float
    wrong_shown: float


@dataclass(frozen=True, kw_only=True)
class ConfidenceReport(SavedConfidence):
    surefind: str
    created: str
    exam: ExamName
    success: str
    confidence: Effort
    questions: ConfidenceQuestions
    right: float
    mean: MeanConfidence
    held_out: Reliability
    builtin: Reliability
    proposed: Proposal | None


def read_confidence(file: Path) -> ConfidenceReport:
    """Reads a saved calibration with its report. Raises `UsageError` if it is damaged, or another version of Surefind
    wrote it."""
    try:
        return from_json(ConfidenceReport, read_sealed(file, FORMAT))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{file} is damaged, or another version of Surefind wrote it ({error}). Restore it from a backup, or "
            "remove it and make the calibration again: surefind calibrate confidence."
        ) from None


# ---------------------------------------------------------------- rerankers


@dataclass(frozen=True)
class ThresholdQuestions:
    """How many questions chose the threshold, and how many checked it."""

    tuning: int
    held_out: int
    dropped: int


@dataclass(frozen=True)
class RerankQuality:
    """The quality if no question is reranked, if all are, and if the confidence decides."""

    never: float
    always: float
    conditional: float


@dataclass(frozen=True, kw_only=True)
class SkipResult:
    """What a threshold does on questions."""

    questions: int
    skipped: int
    skip_rate: float
    successes: int
    success: float | None
    """The share of skipped questions that succeed; None if none is skipped."""
    low: float
    high: float
    quality: RerankQuality
    gain_kept: float | None
    """The share of the reranker's gain that is kept; None if there is none."""


@dataclass(frozen=True, kw_only=True)
class TriedThreshold:
    """A threshold on the questions that chose it."""

    below: float
    skipped: int
    success: float
    low: float


@dataclass(frozen=True, kw_only=True)
class CurvePoint(TriedThreshold):
    """A threshold that was tested, with its effect on the held-out questions."""

    held_out: SkipResult


@dataclass(frozen=True, kw_only=True)
class ThresholdRow:
    """One measure of confidence: its threshold, and what it does on both parts."""

    when: When
    below: float | None
    tuning: SkipResult
    held_out: SkipResult
    kept: bool
    """Whether the held-out questions kept the promise."""


@dataclass(frozen=True, kw_only=True)
class ThresholdReport(SavedThreshold):
    surefind: str
    created: str
    exam: ExamName
    success: str
    quality: str
    beta: float
    confidence: float
    seconds: float
    dollars: float
    rule: Rule
    eq32: TriedThreshold | None
    failed: TriedThreshold | None
    most_skipped: float
    questions: ThresholdQuestions
    rows: tuple[ThresholdRow, ...]
    curve: tuple[CurvePoint, ...]

    @property
    def chosen(self) -> ThresholdRow:
        """The row of the measure that is saved."""
        return next(row for row in self.rows if row.when == self.when)
