"""`/v1/exams` and `/v1/reports`: what was asked, and how well it was answered. Both quote documents, so a caller sees
the questions whose gold it may read, and the reports that were made for its groups."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from surefind.base.disk.records import to_json
from surefind.base.errors import NotFoundError
from surefind.doors.http.answers import as_json
from surefind.doors.http.preview import seen_questions
from surefind.doors.http.service import Served
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
