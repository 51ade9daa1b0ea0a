"""`/reports`: benchmarks, answers, studies and calibrations; starting one; adopting a configuration.

`/reports/KIND/ID`: the figures of a report as a plain page; `/full` is the page that the report's script draws.

Quality over time: the benchmarks of one exam as points of a small chart.

`/jobs/ID`: how far a job is. The page asks again by itself, with a script or without.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import HTMLResponse, Response

from surefind.base.access import Caller
from surefind.base.errors import ExamError, NotFoundError
from surefind.doors.http.jobs import Job, job_about, job_data, job_lines
from surefind.doors.http.service import Served, Service
from surefind.doors.web.page import back_to, document_path, is_fragment, page, with_own_scripts
from surefind.kb.adoption import Undoable, undo_change, undoable
from surefind.lab.bench.answers import render as answers_page
from surefind.lab.bench.html import render as bench_page
from surefind.lab.bench.plan import preset_names
from surefind.lab.bench.report import BenchReport
from surefind.lab.calibrate.report import render as calibration_page
from surefind.lab.exam.store import ExamStore
from surefind.lab.measure.statistics import Interval
from surefind.lab.study.archive import Rating, Saved, hidden_of_owner, saved_report, saved_reports
from surefind.lab.study.html import render as study_page
from surefind.lab.study.stage import study_names

router = APIRouter(include_in_schema=False)

_WIDE, _HIGH, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 190, 44, 12, 12, 30


@dataclass(frozen=True)
class Point:
    """One benchmark."""

    x: float
    y: float
    low: float
    high: float
    label: str
    report: Saved
    row: Rating


@dataclass(frozen=True)
class Chart:
    exam: str
    measure: str
    used: tuple[Point, ...]
    """The quality of the configuration that is in use now."""
    best: tuple[Point, ...]
    """The quality of the best configuration of each benchmark."""
    ticks: tuple[tuple[float, str], ...]
    """Heights and texts of the scale."""
    dates: tuple[tuple[float, str], ...]
    wide: int = _WIDE
    high: int = _HIGH
    left: int = _LEFT
    right: int = _WIDE - _RIGHT

    @property
    def line(self) -> str:
        """The points of the configuration in use, as an SVG polyline has them."""
        return " ".join(f"{point.x},{point.y}" for point in self.used)


def history(reports: Sequence[Saved], exam: str, spec: str, layout: str) -> Chart | None:
    """Returns the chart of an exam's benchmarks, oldest first; None if there are fewer than two."""
    shown = [
        report for report in reversed(reports) if report.kind == "benchmark" and report.title == exam and report.rows
    ]
    shown = [report for report in shown if report.measure == shown[-1].measure]
    if len(shown) < 2:
        return None
    used = [report.row(spec, layout) for report in shown]
    best = [report.best for report in shown]
    drawn = [row for row in (*used, *best) if row is not None]
    bounds = [value for row in drawn for value in (row.mean, row.low, row.high) if value is not None]
    scale = _Scale(min(bounds), max(bounds), len(shown))
    first, last = shown[0], shown[-1]
    until = 10 if first.created[:10] != last.created[:10] else 16
    return Chart(
        exam, last.measure, scale.points(shown, used), scale.points(shown, best), scale.ticks(),
        ((scale.x(0), _date(first, until)), (scale.x(len(shown) - 1), _date(last, until))),
    )  # fmt: skip


def _date(report: Saved, until: int) -> str:
    return report.created[:until].replace("T", " ")


class _Scale:
    def __init__(self, low: float, high: float, count: int) -> None:
        self._low = max(0.0, low - 0.02)
        self._high = min(1.0, max(high + 0.02, self._low + 0.05))
        self._count = count

    def x(self, number: int) -> float:
        return round(_LEFT + 12 + number * (_WIDE - _LEFT - _RIGHT - 24) / max(1, self._count - 1), 1)

    def y(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return round(_HIGH - _BOTTOM - share * (_HIGH - _TOP - _BOTTOM), 1)

    def ticks(self) -> tuple[tuple[float, str], ...]:
        values = [self._low + (self._high - self._low) * step / 3 for step in range(4)]
        return tuple((self.y(value), f"{value:.2f}") for value in values)

    def points(self, reports: Sequence[Saved], rows: Sequence[Rating | None]) -> tuple[Point, ...]:
        found = []
        for number, (report, row) in enumerate(zip(reports, rows, strict=True)):
            if row is not None:
                low, high = (row.mean if end is None else end for end in (row.low, row.high))
                label = f"{report.created[:10]}: {row.name} {row.mean:.3f}"
                found.append(Point(self.x(number), self.y(row.mean), self.y(low), self.y(high), label, report, row))
        return tuple(found)


_FULL: dict[str, Callable[[Any], str]] = {
    "benchmark": bench_page,
    "answers": answers_page,
    "study": study_page,
    "calibration": calibration_page,
}
_COMPRESS_FROM_BYTES = 100_000
"""Bytes of a page from which on it is compressed."""


@dataclass(frozen=True)
class ReportLine:
    """A configuration in the table of a benchmark."""

    name: str
    spec: str
    letters: str
    quality: Interval
    others: Sequence[float]
    """The values of the other measures."""
    p50: float
    mark: str
    """`best`, `recommended` or nothing."""


@router.get("/reports/{kind}/{report_id}")
async def report(kind: str, report_id: str, request: Request, service: Served) -> Response:
    """The tables of a report. Answers and a calibration have one page only."""
    caller = await service.caller(request, "review")

    def read() -> Response:
        saved, data = _found(service, caller, kind, report_id)
        if kind in ("answers", "calibration"):
            return with_own_scripts(_FULL[kind](data), "/reports", "Reports")
        shared: dict[str, Any] = {"title": saved.title or report_id, "here": "reports", "found": saved, "data": data}
        if kind == "study":
            return page(caller, "report_study.html", **shared)
        return page(caller, "report_benchmark.html", lines=lines_of(data), **shared)

    return await service.work_apart("report", request, caller, read)


@router.get("/reports/{kind}/{report_id}/full")
async def full(kind: str, report_id: str, request: Request, service: Served) -> Response:
    """The report's own page, rendered again from its data, so that only our script can run."""
    caller = await service.caller(request, "review")

    def render() -> Response:
        _, data = _found(service, caller, kind, report_id)
        html = _FULL[kind](data)
        return compressed(request, with_own_scripts(html, f"/reports/{kind}/{quote(report_id)}", "Figures"))

    return await service.work_apart("report", request, caller, render)


def _found(service: Service, caller: Caller, kind: str, report_id: str) -> tuple[Saved, Any]:
    if kind not in _FULL:
        raise NotFoundError("There is no report of this kind.")
    return saved_report(service.kb.data, caller.groups, kind, report_id, lambda: service.readable(caller))


def lines_of(report: BenchReport) -> list[ReportLine]:
    """Returns the rows of a benchmark, the best first."""
    others = [name for name in report.measures if name != report.primary]
    lines = []
    for row in report.rows:
        mark = "best" if row.name == report.winner else ""
        mark = "recommended" if row.name == report.recommended else mark
        rest = [row.measures[other].mean for other in others]
        lines.append(
            ReportLine(row.name, row.spec, row.letters, row.measures[report.primary], rest, row.latency_ms.p50, mark)
        )
    return sorted(lines, key=lambda line: -line.quality.mean)


def compressed(request: Request, made: HTMLResponse) -> Response:
    """Compresses a large page, if the browser accepts that. A report holds its passages, and these shrink to a
    fifth."""
    if len(made.body) < _COMPRESS_FROM_BYTES or "gzip" not in request.headers.get("accept-encoding", ""):
        return made
    headers = {name: value for name, value in made.headers.items() if name != "content-length"}
    return Response(
        gzip.compress(made.body, 6), made.status_code, headers | {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    )


_LINES = 12
"""Lines of progress that the page shows."""
_WHAT = {
    "complete": "Computing vectors",
    "sync": "Reading documents", "publish": "Publishing a draft", "retire": "Retiring a document",
    "bench": "Benchmark", "study": "Study",
    "pool": "Collecting passages to label", "graph": "Building the graph", "adopt": "Adopting a configuration",
}  # fmt: skip
_HERE = {"publish": "drafts", "retire": "documents", "sync": "settings", "pool": "label", "graph": "graph"}
_REPORTS = {"bench": "benchmark", "study": "study"}


@router.get("/jobs/{job_id}")
async def job(job_id: str, request: Request, service: Served) -> Response:
    caller = await service.caller(request, "read")
    running = service.jobs.get(job_id, caller)
    template = "job_state.html" if is_fragment(request) else "job.html"

    def read() -> Response:
        return page(
            caller, template, title=_WHAT[running.kind], here=_HERE.get(running.kind, "reports"), job=running,
            after=_after(running), data=job_data(running, caller), what=_WHAT[running.kind],
            lines=job_lines(running, caller)[-_LINES:], about=job_about(running, caller), seconds=_seconds(running),
        )  # fmt: skip

    return await service.work(read)


@router.post("/jobs/{job_id}/cancel")
async def cancel(job_id: str, request: Request, service: Served) -> Response:
    """Stops a job. What it has finished is kept."""
    caller = await service.caller(request, "read")
    running = service.jobs.get(job_id, caller)
    await service.jobs.cancel(running, caller)
    return back_to(request, f"/jobs/{running.id}" if caller.name in running.callers or caller.may("admin") else "/")


def _after(job: Job) -> str:
    """Returns the page that shows what a job did: the report that it wrote, the document that it published."""
    if job.kind in ("publish", "retire"):
        return document_path(job.about)
    written = job.result.get("page") if isinstance(job.result, dict) else None
    if job.kind in _REPORTS and isinstance(written, str):
        return f"/reports/{_REPORTS[job.kind]}/{quote(Path(written).parent.name)}"
    return job.after


def _seconds(job: Job) -> int:
    return max(0, round((job.ended or time.time()) - job.began))  # the clock may have been set back


_MAX_REPORTS = 200


@dataclass(frozen=True)
class ReportsPage:
    """What the page shows."""

    reports: Sequence[Saved]
    more: int
    """Reports that are not shown."""
    chart: Chart | None
    charted: Sequence[str]
    """The exams that have a chart."""
    owners: int
    """Reports that were made for the owner, and are not shown to this caller."""
    signing: str
    """Where this caller signs in as the owner, or reads how."""
    exams: Sequence[str]
    undo: Undoable | None
    """What was adopted last, if that can be undone."""
    spec: str
    layout: str
    """The configuration that searches use."""
    pipeline: str


@router.get("/reports")
async def reports(request: Request, service: Served, exam: Annotated[str, Query(max_length=100)] = "") -> Response:
    caller = await service.caller(request, "review")
    jobs = [(job, job_about(job, caller)) for job in service.jobs.all(caller) if not job.ended]

    def read() -> Response:
        return page(
            caller, "reports.html", title="Reports", here="reports", shelf=_shelf(service, caller, exam), jobs=jobs,
            presets=preset_names(), studies=study_names(),
        )  # fmt: skip

    return await service.work_apart("report", request, caller, read)


def _shelf(service: Service, caller: Caller, exam: str) -> ReportsPage:
    settings = service.kb.settings
    saved = saved_reports(service.kb.data, caller.groups)
    spec, layout = str(settings.named(settings.pipeline)), str(settings.layout)
    counts: dict[str, int] = {}
    for entry in saved:
        if entry.kind == "benchmark" and entry.rows:
            counts[entry.title] = counts.get(entry.title, 0) + 1
    charted = [name for name, count in counts.items() if count > 1]
    chosen = exam if exam in charted else max(charted, key=counts.__getitem__, default="")
    signing = "/settings" if service.gatekeeper.lets_everybody_in else "/sign-in?next=/reports"
    return ReportsPage(
        saved[:_MAX_REPORTS], max(0, len(saved) - _MAX_REPORTS), history(saved, chosen, spec, layout), charted,
        hidden_of_owner(service.kb.data, caller.groups), signing, _exams(service),
        undoable(service.kb.folder, caller.may("admin")), spec, layout, settings.pipeline,
    )  # fmt: skip


def _exams(service: Service) -> list[str]:
    return ExamStore(service.kb.data / "exams").names()


@router.post("/reports/start")
async def start(
    request: Request,
    service: Served,
    kind: Annotated[Literal["bench", "study"], Form()] = "bench",
    exam: Annotated[str, Form(max_length=100)] = "",
    preset: Annotated[str, Form(max_length=100)] = "",
    study: Annotated[str, Form(max_length=100)] = "",
) -> Response:
    """Starts a benchmark or a study, and shows how far it is."""
    caller = await service.caller(request, "review")
    known: dict[str, Sequence[str]] = {"exam": _exams(service), "preset": preset_names(), "study": study_names()}
    given = {"exam": exam, "preset": preset if kind == "bench" else "", "study": study if kind == "study" else ""}
    for option, value in given.items():
        if value and value not in known[option]:
            raise ExamError(f"There is no {option} {value!r}. Choices: {', '.join(known[option])}.")
    options = {option: value for option, value in given.items() if value}
    about = ", ".join(options.values()) or "questions written from the documents"
    job = await service.jobs.start(caller, kind, options, about, "/reports")
    return back_to(request, f"/jobs/{job.id}")


@router.post("/reports/adopt")
async def adopt(
    request: Request,
    service: Served,
    report_id: Annotated[str, Form(alias="id", max_length=200)],
    row: Annotated[str, Form(max_length=500)],
) -> Response:
    """Makes a configuration of a benchmark the default, after its indexes are built."""
    caller = await service.caller(request, "review")
    saved, _ = await service.work(lambda: saved_report(service.kb.data, caller.groups, "benchmark", report_id, tuple))
    if row not in {report_row.name for report_row in saved.rows}:
        raise NotFoundError(f"The report has no configuration {row!r}.")
    options = {"folder": str(saved.path.parent), "row": row}
    job = await service.jobs.start(caller, "adopt", options, row, "/reports")
    return back_to(request, f"/jobs/{job.id}")


@router.post("/reports/undo")
async def undo(request: Request, service: Served, mark: Annotated[str, Form(max_length=64)] = "") -> Response:
    """Restores the settings as they were before the last adoption, if that is the one that the visitor saw."""
    caller = await service.caller(request, "review")

    def restore() -> None:
        undo_change(service.kb, caller.may("admin"), mark)
        service.reload()

    await service.write(restore)
    return back_to(request, "/reports")
