"""`/reports/KIND/ID`: the figures of a report as a plain page; `/full` is the page that the report's script draws."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from surefind.bench.answers_page import render as answers_page
from surefind.bench.html import render as bench_page
from surefind.calibrate.page import render as calibration_page
from surefind.errors import NotFoundError
from surefind.serve.archive import Saved, saved_report
from surefind.serve.auth.caller import Caller
from surefind.serve.http.service import Served, Service
from surefind.serve.web.page import page
from surefind.serve.web.policy import with_own_scripts
from surefind.study.html import render as study_page

router = APIRouter(include_in_schema=False)
_FULL: dict[str, Callable[[dict[str, Any]], str]] = {
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
    mean: float
    low: float | None
    high: float | None
    others: Sequence[float | None]
    """The values of the other measures."""
    p50: float | None
    mark: str
    """`best`, `recommended` or nothing."""


@router.get("/reports/{kind}/{report_id}")
async def report(kind: str, report_id: str, request: Request, service: Served) -> Response:
    """The tables of a report. Answers and a calibration have one page only."""
    caller = await service.caller(request, "review")
    found, data = await service.work(lambda: _found(service, caller, kind, report_id))
    if kind in ("answers", "calibration"):
        return with_own_scripts(_FULL[kind](data), "/reports", "Reports")
    shared: dict[str, Any] = {"title": found.title or report_id, "here": "reports", "found": found, "data": data}
    if kind == "study":
        return page(caller, "report_study.html", **shared)
    return page(caller, "report_benchmark.html", lines=lines_of(data), **shared)


@router.get("/reports/{kind}/{report_id}/full")
async def full(kind: str, report_id: str, request: Request, service: Served) -> Response:
    """The report's own page, rendered again from its data, so that only our script can run."""
    caller = await service.caller(request, "review")
    _, data = await service.work(lambda: _found(service, caller, kind, report_id))
    html = await service.work(lambda: _FULL[kind](data))
    return compressed(request, with_own_scripts(html, f"/reports/{kind}/{quote(report_id)}", "Figures"))


def _found(service: Service, caller: Caller, kind: str, report_id: str) -> tuple[Saved, dict[str, Any]]:
    if kind not in _FULL:
        raise NotFoundError("There is no report of this kind.")
    return saved_report(service.kb.data, caller, kind, report_id, lambda: service.readable(caller))


def lines_of(data: dict[str, Any]) -> list[ReportLine]:
    """Returns the rows of a benchmark, the best first. Reports of other versions lack some fields."""
    primary = data.get("primary", "")
    others = [name for name in data.get("measures", ()) if name != primary]
    found = []
    for row in data.get("rows", ()):
        measured = row.get("measures", {})
        quality = measured.get(primary)
        if not quality:
            continue
        name = row["name"]
        mark = "best" if name == data.get("winner") else ""
        mark = "recommended" if name == data.get("recommended") else mark
        rest = [measured.get(other, {}).get("mean") for other in others]
        where = quality["mean"], quality.get("low"), quality.get("high")
        p50 = row.get("latency_ms", {}).get("p50")
        found.append(ReportLine(name, row.get("spec", ""), row.get("letters", ""), *where, rest, p50, mark))
    return sorted(found, key=lambda line: -line.mean)


def compressed(request: Request, made: HTMLResponse) -> Response:
    """Compresses a large page, if the browser accepts that. A report holds its passages, and these shrink to a
    fifth."""
    if len(made.body) < _COMPRESS_FROM_BYTES or "gzip" not in request.headers.get("accept-encoding", ""):
        return made
    headers = {name: value for name, value in made.headers.items() if name != "content-length"}
    return Response(
        gzip.compress(made.body, 6), made.status_code, headers | {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    )
