"""`/v1/jobs`: long work, its progress as server-sent events, and how to stop it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from surefind.doors.auth.caller import Caller
from surefind.doors.http.answers import as_json
from surefind.doors.http.job import Job
from surefind.doors.http.job_view import job_data, shown_line
from surefind.doors.http.service import Served, Service

router = APIRouter(tags=["jobs"])


class JobRequest(BaseModel):
    """What to do: `sync` reads the sources again, `bench` runs a benchmark, `study` repeats a published study. A draft
    is published by `/v1/drafts/{number}/publish`."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["sync", "bench", "study"]
    exam: str | None = Field(None, max_length=100)
    preset: str | None = Field(None, max_length=100)
    study: str | None = Field(None, max_length=100, description="The study to repeat, such as `cascade`.")


@router.post("/v1/jobs", status_code=202, summary="Start a job")
async def start(wanted: JobRequest, request: Request, service: Served) -> Response:
    """Starts long work, or lets it wait for its turn. `sync` needs the scope write, the others review. A sync that
    waits already is returned in place of a second one."""
    caller = await service.caller(request, "read")
    options = wanted.model_dump(exclude={"kind"}, exclude_none=True)
    return await _answer(service, job_data, await service.jobs.start(caller, wanted.kind, options), caller, status=202)


@router.get("/v1/jobs", summary="List jobs")
async def jobs(request: Request, service: Served) -> Response:
    """Lists the caller's jobs, newest first; for admins, all jobs."""
    caller = await service.caller(request, "read")
    listed = service.jobs.all(caller)
    return await _answer(service, lambda: {"jobs": [job_data(job, caller) for job in listed]})


@router.get("/v1/jobs/{job_id}", summary="Read a job")
async def job(job_id: str, request: Request, service: Served) -> Response:
    """Returns the state, the progress and the result of a job. Callers who may not read every document get the new
    generation of a sync or a publication, and the figures of a benchmark or a study that was made for their groups."""
    caller = await service.caller(request, "read")
    return await _answer(service, job_data, service.jobs.get(job_id, caller), caller)


@router.delete("/v1/jobs/{job_id}", summary="Cancel a job")
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


@router.get("/v1/jobs/{job_id}/events", summary="Follow a job", response_class=StreamingResponse)
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
