"""`/jobs/ID`: how far a job is. The page asks again by itself, with a script or without."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from surefind.doors.http.job import Job
from surefind.doors.http.job_view import job_about, job_data, job_lines
from surefind.doors.http.service import Served
from surefind.doors.web.page import back_to, document_path, is_fragment, page

router = APIRouter(include_in_schema=False)
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
