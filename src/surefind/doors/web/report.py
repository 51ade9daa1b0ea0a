"""`/reports/KIND/ID`: the figures of a report as a plain page; `/full` is the page that the report's script draws."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from surefind.base.errors import NotFoundError
from surefind.doors.auth.caller import Caller
from surefind.doors.http.service import Served, Service
from surefind.doors.web.page import page
from surefind.doors.web.policy import with_own_scripts
from surefind.lab.bench.answers_page import render as answers_page
from surefind.lab.bench.html import render as bench_page
from surefind.lab.bench.report import BenchReport
from surefind.lab.calibrate.page import render as calibration_page
from surefind.lab.measure.statistics import Interval
from surefind.lab.study.archive import Saved, saved_report
from surefind.lab.study.html import render as study_page

router = APIRouter(include_in_schema=False)
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
