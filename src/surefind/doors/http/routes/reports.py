"""`/v1/exams` and `/v1/reports`: what was asked, and how well it was answered. Both quote documents, so a caller sees
the questions whose gold it may read, and the reports that were made for its groups.

`/v1/jobs`: long work, its progress as server-sent events, and how to stop it.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from surefind.base.access import Caller
from surefind.base.disk.sealed import to_json
from surefind.base.errors import NotFoundError
from surefind.doors.http.answers import as_json
from surefind.doors.http.drafting import seen_questions
from surefind.doors.http.jobs import Job, job_data, shown_line
from surefind.doors.http.service import Served, Service
from surefind.lab.exam.keeping import keep
from surefind.lab.exam.model import query_to_json
from surefind.lab.exam.store import ExamStore
from surefind.lab.study.archive import saved_report, saved_reports

router = APIRouter(tags=["exams and reports"])
_NAME = re.compile(r"[\w.@ :+-]{1,200}")
_JSON: dict[int | str, dict[str, Any]] = {200: {"content": {"application/json": {}}}}


@router.get("/v1/exams", summary="List exams")
async def exams(request: Request, service: Served) -> dict[str, Any]:
    """Lists the exams, with the number of questions that the caller may see."""
    caller = await service.caller(request, "review")

    def read() -> dict[str, Any]:
        store = ExamStore(service.kb.data / "exams")
        rows = []
        for name in store.names():
            exam = store.load(name)
            rows.append(
                {"name": name, "version": exam.version, "questions": len(seen_questions(exam, service, caller))}
            )
        return {"exams": rows}

    return await service.work_apart("report", request, caller, read)


@router.get("/v1/exams/{name}", summary="Read an exam", responses=_JSON)
async def exam(name: str, request: Request, service: Served) -> Response:
    """Returns the questions of an exam whose gold passages the caller may read."""
    caller = await service.caller(request, "review")

    def read() -> bytes:
        store = ExamStore(service.kb.data / "exams")
        if name not in store.names():
            raise NotFoundError(f"There is no exam {name!r}.")
        exam = store.load(name)
        queries = [query_to_json(query) for query in seen_questions(exam, service, caller)]
        return as_json({"name": name, "version": exam.version, "questions": queries})

    return _json(await service.work_apart("report", request, caller, read))


class KeepRequest(BaseModel):
    """A question and the hit that answers it."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, max_length=2_000, description="The question as it was asked.")
    id: str = Field(max_length=64, description="The id of the hit that answers it.")


@router.post("/v1/exams/{name}/questions", status_code=201, summary="Keep a question")
async def keep_question(name: str, given: KeepRequest, request: Request, service: Served) -> dict[str, Any]:
    """Adds a question to an exam, answered by a hit that the caller may read. `added` is false if it was there."""
    caller = await service.caller(request, "review")
    return asdict(await service.work(lambda: keep(service.kb, given.query, given.id, caller.access(), name)))


@router.get("/v1/reports", summary="List reports")
async def reports(request: Request, service: Served) -> dict[str, Any]:
    """Lists the benchmark reports that were made for groups of the caller, newest first. A report that cannot be read
    has `damaged`, which says why; only the owner sees it."""
    caller = await service.caller(request, "review")

    def read() -> dict[str, Any]:
        rows = []
        for one in saved_reports(service.kb.data, caller.groups):
            if one.kind == "benchmark":
                about = {"created": one.created, "primary": one.measure, "recommended": one.recommended}
                wrong = {"damaged": one.damaged} if one.damaged else {}
                rows.append({"id": one.id, "exam": one.title, "audience": one.audience, **about, **wrong})
        return {"reports": rows}

    return await service.work_apart("report", request, caller, read)


@router.get("/v1/reports/{report_id}", summary="Read a report", responses=_JSON)
async def report(report_id: str, request: Request, service: Served) -> Response:
    """Returns a benchmark report as `surefind bench --json` writes it, with questions and passages of the documents
    that the caller may read now."""
    caller = await service.caller(request, "review")

    if not _NAME.fullmatch(report_id):
        raise NotFoundError("There is no report of this name.")

    def read() -> bytes:
        saved = saved_report(service.kb.data, caller.groups, "benchmark", report_id, lambda: service.readable(caller))
        return as_json(to_json(saved[1]))

    return _json(await service.work_apart("report", request, caller, read))


def _json(body: bytes) -> Response:
    """Returns JSON that was written in a thread: a report may have megabytes."""
    return Response(body, media_type="application/json")


jobs_router = APIRouter(tags=["jobs"])


class JobRequest(BaseModel):
    """What to do: `sync` reads the sources again, `bench` runs a benchmark, `study` repeats a published study. A draft
    is published by `/v1/drafts/{number}/publish`."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["sync", "bench", "study"]
    exam: str | None = Field(None, max_length=100)
    preset: str | None = Field(None, max_length=100)
    study: str | None = Field(None, max_length=100, description="The study to repeat, such as `cascade`.")


@jobs_router.post("/v1/jobs", status_code=202, summary="Start a job")
async def start(wanted: JobRequest, request: Request, service: Served) -> Response:
    """Starts long work, or lets it wait for its turn. `sync` needs the scope write, the others review. A sync that
    waits already is returned in place of a second one."""
    caller = await service.caller(request, "read")
    options = wanted.model_dump(exclude={"kind"}, exclude_none=True)
    return await _answer(service, job_data, await service.jobs.start(caller, wanted.kind, options), caller, status=202)


@jobs_router.get("/v1/jobs", summary="List jobs")
async def jobs(request: Request, service: Served) -> Response:
    """Lists the caller's jobs, newest first; for admins, all jobs."""
    caller = await service.caller(request, "read")
    listed = service.jobs.all(caller)
    return await _answer(service, lambda: {"jobs": [job_data(job, caller) for job in listed]})


@jobs_router.get("/v1/jobs/{job_id}", summary="Read a job")
async def job(job_id: str, request: Request, service: Served) -> Response:
    """Returns the state, the progress and the result of a job. Callers who may not read every document get the new
    generation of a sync or a publication, and the figures of a benchmark or a study that was made for their groups."""
    caller = await service.caller(request, "read")
    return await _answer(service, job_data, service.jobs.get(job_id, caller), caller)


@jobs_router.delete("/v1/jobs/{job_id}", summary="Cancel a job")
async def cancel(job_id: str, request: Request, service: Served) -> Response:
    """Stops a job. What it has finished is kept, and the same job continues from there. A job that others asked for,
    too, goes on without the caller."""
    caller = await service.caller(request, "read")
    job = service.jobs.get(job_id, caller)
    await service.jobs.cancel(job, caller)
    return await _answer(service, job_data, job, caller)


async def _answer(service: Service, data: Callable[..., dict[str, Any]], *about: Any, status: int = 200) -> Response:
    """Writes an answer in a thread: the result of a job may be large, and other requests would wait."""
    text = await service.work(lambda: as_json(data(*about)))
    return Response(text, status, media_type="application/json")


@jobs_router.get("/v1/jobs/{job_id}/events", summary="Follow a job", response_class=StreamingResponse)
async def events(
    job_id: str,
    request: Request,
    service: Served,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """Sends the progress of a job as server-sent events: `progress` for each line, `end` with the result."""
    caller = await service.caller(request, "read")
    job = service.jobs.get(job_id, caller)
    after = int(last_event_id) if last_event_id and last_event_id.isascii() and last_event_id.isdigit() else 0
    return StreamingResponse(_stream(service, caller, job, min(after, 2**31)), media_type="text/event-stream")


async def _stream(service: Service, caller: Caller, job: Job, after: int) -> AsyncIterator[str]:
    async for number, event in service.jobs.events(job, after):
        if not number:
            yield ": still working\n\n"
        elif event is None:
            data = await service.work(lambda: as_json(job_data(job, caller)).decode())
            yield f"id: {number}\nevent: end\ndata: {data}\n\n"
        elif line := shown_line(event, caller):
            yield f"id: {number}\nevent: progress\ndata: {json.dumps(line)}\n\n"
