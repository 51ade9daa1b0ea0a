"""The report of `surefind bench --answers`: values, written as JSON and read again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from surefind.base.disk.records import from_json, to_json
from surefind.base.disk.sealed import read_sealed, write_sealed
from surefind.base.errors import UsageError
from surefind.lab.bench.environment import Environment
from surefind.lab.measure.statistics import Interval

FORMAT = 1
"""Increase it when a field is added, removed or changed. Reports of other formats are not read."""
ANSWERS_FILE = "answers.json"


@dataclass(frozen=True, kw_only=True)
class AnswersExam:
    """The questions that were asked."""

    name: str
    version: int
    fingerprint: str | None = None
    queries: int
    without_span: int
    """Questions that were left out, because their gold is a whole document."""
    dropped: int | None = None
    restricted: int | None = None

    @property
    def label(self) -> str:
        return f"{self.name} v{self.version}" if self.version else self.name


@dataclass(frozen=True, kw_only=True)
class AnswersRow:
    """A pipeline, and how good its quotes are."""

    name: str
    aliases: tuple[str, ...]
    spec: str
    letters: str
    right: Interval
    f1: Interval
    answered: Interval
    precision: Interval | None
    precision_at_half: Interval
    aurc: Interval
    unanswerable: Interval | None
    seconds: float
    """The median time of a question."""
    curve: tuple[tuple[float, float], ...]
    """Points of the risk–coverage curve: (coverage, risk)."""


@dataclass(frozen=True, kw_only=True)
class AnswersReport:
    format: int = FORMAT
    surefind: str
    created: str
    command: str
    audience: str
    groups: tuple[str, ...]
    environment: Environment
    exam: AnswersExam
    unanswerable: int
    confidence: float
    rows: tuple[AnswersRow, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("it has no rows")

    @property
    def ordered(self) -> list[AnswersRow]:
        """The rows, best first."""
        return sorted(self.rows, key=lambda row: -row.right.mean)


def save_answers(report: AnswersReport, file: Path) -> None:
    write_sealed(file, to_json(report))


def read_answers(file: Path) -> AnswersReport:
    """Reads a report. Raises `UsageError` if it is damaged, or another version of Surefind wrote it."""
    try:
        return from_json(AnswersReport, read_sealed(file, FORMAT))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{file} is damaged, or another version of Surefind wrote it ({error}). Remove it, and measure again: "
            "surefind bench --answers."
        ) from None
