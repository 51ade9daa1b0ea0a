"""The reports of a knowledge base, as far as a caller may see them: benchmarks, answers, studies and calibrations.

All but calibrations are for callers who are in every group that they were made for; one without a list of groups is
for the owner. A calibration has figures only, and is for everybody who may see reports. A benchmark quotes documents as
they were readable then, so a caller sees the quotes of those that they may read today (`bench.readable`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from surefind.base.access import EVERYTHING
from surefind.base.disk.sealed import read_sealed
from surefind.base.errors import NotFoundError, UsageError
from surefind.base.redact import without_folders
from surefind.base.types import ExamName
from surefind.engine.confidence.answering import FOLDER as CONFIDENCE
from surefind.engine.store.database import FileVersion, file_version
from surefind.lab.bench.answers import ANSWERS_FILE, AnswersReport, read_answers
from surefind.lab.bench.recommendation import listed
from surefind.lab.bench.report import BenchReport
from surefind.lab.bench.saved import REPORT_FILE, REPORTS, read_report, readable_answers, readable_report
from surefind.lab.calibrate.report import ConfidenceReport, read_confidence
from surefind.lab.study.html import readable_study
from surefind.lab.study.run import FOLDER as STUDIES

Kind = Literal["benchmark", "answers", "study", "calibration"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_READERS: dict[Kind, Callable[[Path], Any]] = {
    "benchmark": read_report,
    "answers": read_answers,
    "study": read_sealed,
    "calibration": read_confidence,
}


@dataclass(frozen=True)
class Rating:
    """A configuration of a benchmark, and its quality by the measure that decides."""

    name: str
    spec: str
    layout: str
    mean: float
    low: float
    high: float
    p50: float


@dataclass(frozen=True)
class Saved:
    """What a list shows of a report."""

    kind: Kind
    id: str
    path: Path
    created: str
    title: str
    """The exam of a benchmark or calibration, the title of a study."""
    questions: int
    groups: frozenset[str] | None
    """The groups that it was made for; None if only the owner may see it."""
    measure: str = ""
    recommended: str = ""
    rows: tuple[Rating, ...] = ()
    says: str = ""
    audience: str = ""
    damaged: str = ""
    """Why the report cannot be read; empty if it can be."""

    @property
    def best(self) -> Rating | None:
        """The row with the highest mean."""
        return max(self.rows, key=lambda row: row.mean, default=None)

    def row(self, spec: str, layout: str) -> Rating | None:
        """Returns the row of this configuration."""
        return next((row for row in self.rows if (row.spec, row.layout) == (spec, layout)), None)

    def admits(self, groups: frozenset[str]) -> bool:
        """Returns whether a caller in these groups may see the report."""
        return EVERYTHING in groups or (self.groups is not None and self.groups <= groups)


def saved_reports(data: Path, groups: frozenset[str]) -> list[Saved]:
    """Returns the reports that a caller in these groups may see, newest first. The groups of a damaged one are not
    known, so the owner sees it."""
    return sorted(
        (report for report in _all(data) if report.admits(groups)), key=lambda report: report.created, reverse=True
    )


def hidden_of_owner(data: Path, groups: frozenset[str]) -> int:
    """Returns how many reports were made for the owner, and are not shown to a caller in these groups."""
    return sum(EVERYTHING in (report.groups or ()) for report in _all(data) if not report.admits(groups))


def saved_report(
    data: Path, groups: frozenset[str], kind: str, report_id: str, readable: Callable[[], Collection[str]]
) -> tuple[Saved, Any]:
    """Returns a report and its content, with quotes of the documents that are `readable` to the caller now. Raises
    `NotFoundError` if there is no report that the caller may see."""
    for report in _all(data):
        if (report.kind, report.id) == (kind, report_id) and report.admits(groups):
            if report.damaged:
                raise UsageError(report.damaged)
            content = _read(report.kind, report.path)
            return report, content if EVERYTHING in groups else _readable(content, readable)
    raise NotFoundError(f"There is no report {report_id!r} for your groups.")


def _read(kind: Kind, path: Path) -> Any:
    """Reads a report of this kind."""
    return _READERS[kind](path)


def _readable(content: Any, readable: Callable[[], Collection[str]]) -> Any:
    """Returns a report without what its readers may not know."""
    if isinstance(content, BenchReport):
        return readable_report(content, readable())
    if isinstance(content, AnswersReport):
        return readable_answers(content)
    if isinstance(content, ConfidenceReport):
        return replace(content, exam=ExamName(content.exam.name))
    return readable_study(content)


def _all(data: Path) -> Iterator[Saved]:
    places: tuple[tuple[Kind, Path, str], ...] = (
        ("benchmark", data / REPORTS, f"*/{REPORT_FILE}"),
        ("answers", data / REPORTS, f"*/{ANSWERS_FILE}"),
        ("study", data / STUDIES, "*/study.json"),
        ("calibration", data / "models" / CONFIDENCE, "*.json"),
    )
    for kind, folder, pattern in places:
        for path in sorted(folder.glob(pattern)):
            try:
                yield _summary(kind, path, file_version(path))
            except UsageError as error:
                yield _damaged(kind, path, str(error).replace(str(path), str(path.relative_to(data))))
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                reason = error if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: {error}"
                says = (
                    f"{path.relative_to(data)} is damaged, or another version of Surefind wrote it ({reason}). Restore "
                    f"it from a backup, or remove it and make the {kind} again."
                )
                yield _damaged(kind, path, says)


def _damaged(kind: Kind, path: Path, says: str) -> Saved:
    """Returns what a list shows of a report that is damaged, or that another version of Surefind wrote."""
    report_id = path.stem if kind == "calibration" else path.parent.name
    made = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(_modified(path)))
    return Saved(kind, report_id, path, made, report_id, 0, None, damaged=without_folders(says))


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


@lru_cache(maxsize=500)
def _summary(kind: Kind, path: Path, version: FileVersion) -> Saved:
    """Reads a report once; `version` is part of the key, so that a file that changed is read again."""
    content = _read(kind, path)
    if kind == "benchmark":
        return _benchmark(content, path)
    if kind == "answers":
        return _answers(content, path)
    return _study(content, path) if kind == "study" else _calibration(content, path)


def _benchmark(report: BenchReport, path: Path) -> Saved:
    rows = []
    for row in report.rows:
        quality = row.measures[report.primary]
        figures = quality.mean, quality.low, quality.high, row.latency_ms.p50
        rows.append(Rating(row.name, row.spec, row.layout, *figures))
    return Saved(
        "benchmark", path.parent.name, path, report.created, report.exam.name, report.exam.queries,
        frozenset(report.groups), report.primary, report.recommended, tuple(rows), _says(report), report.audience,
    )  # fmt: skip


def _says(report: BenchReport) -> str:
    """What to use, and what was compared."""
    names = [row.name for row in report.ordered]
    return report.verdict.partition("\n")[0] + (f" Compared: {listed(names, 3)}." if len(names) > 1 else "")


def _answers(report: AnswersReport, path: Path) -> Saved:
    best = report.ordered[0]
    return Saved(
        "answers", path.parent.name, path, report.created, report.exam.name, report.exam.queries,
        frozenset(report.groups),
        says=f"The quote has the answer for {best.right.mean:.0%} of the questions with {best.name}.",
        audience=report.audience,
    )  # fmt: skip


def _study(content: dict[str, Any], path: Path) -> Saved:
    asked = sum(collection["questions"] for collection in content["collections"])
    verdicts = [
        verdict["outcome"] for table in content["tables"] for f in table["findings"] for verdict in f["verdicts"]
    ]
    says = ", ".join(f"{verdicts.count(one)} {one}" for one in dict.fromkeys(verdicts))
    return Saved(
        "study", path.parent.name, path, content["created"], content["title"], asked, _groups(content),
        says=f"Findings of the paper: {says}" if says else "",
    )  # fmt: skip


def _calibration(report: ConfidenceReport, path: Path) -> Saved:
    return Saved(
        "calibration", path.stem, path, report.created, report.exam.name, report.questions.exam, frozenset(),
        says=f"The confidence is off by {report.held_out.error:.3f} on average.",
    )  # fmt: skip


def _groups(content: dict[str, Any]) -> frozenset[str] | None:
    groups = content.get("groups")
    return frozenset(map(str, groups)) if isinstance(groups, list) else None
