"""`/reports`: benchmarks, answers, studies and calibrations; starting one; adopting a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import Response

from surefind.base.errors import ExamError, NotFoundError
from surefind.doors.auth.caller import Caller
from surefind.doors.http.job_view import job_about
from surefind.doors.http.service import Served, Service
from surefind.doors.web.history import Chart, history
from surefind.doors.web.page import back_to, page
from surefind.kb.editing import Undoable, undo_change, undoable
from surefind.lab.bench.plan import preset_names
from surefind.lab.exam.store import ExamStore
from surefind.lab.study.archive import Saved, hidden_of_owner, saved_report, saved_reports
from surefind.lab.study.stage import study_names

router = APIRouter(include_in_schema=False)
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
