"""`/retire`: asks before a document is retired, and says what that affects."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import Response

from surefind.doors.http.retiring import affected, retire
from surefind.doors.http.service import Served
from surefind.doors.web.page import back_to, page

router = APIRouter(include_in_schema=False)


@router.get("/retire")
async def ask(request: Request, service: Served, document: Annotated[str, Query(max_length=500)]) -> Response:
    caller = await service.caller(request, "review")

    def read() -> Response:
        effects = affected(service, caller, document)
        title = f"Retire {effects.title}"
        return page(caller, "retire.html", title=title, here="documents", document=document, affected=effects)

    return await service.work(read)


@router.post("/retire")
async def do(request: Request, service: Served, document: Annotated[str, Form(max_length=500)]) -> Response:
    """Starts the job that retires a document, and shows how far it is."""
    caller = await service.caller(request, "review")
    return back_to(request, f"/jobs/{(await retire(service, caller, document)).id}")
