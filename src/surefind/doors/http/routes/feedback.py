"""`/v1/feedback`: what people thought of a hit. It becomes judgments of the exam `feedback`."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from surefind.doors.http.service import Served
from surefind.engine.search.extent import Extent
from surefind.lab.exam.feedback import add

router = APIRouter(tags=["feedback"])


class FeedbackRequest(BaseModel):
    """A thumb or a click: which question, and which hit."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, max_length=2_000, description="The question as it was asked.")
    id: str = Field(max_length=64, description="The id of the hit.")
    kind: Literal["up", "down", "click"]


@router.post("/v1/feedback", status_code=201, summary="Give feedback on a hit")
async def feedback(given: FeedbackRequest, request: Request, service: Served) -> dict[str, Any]:
    """Keeps a thumb or a click. `surefind exam feedback` makes an exam of them."""
    caller = await service.caller(request, "write")

    def keep() -> None:
        hit = service.reader().passage(given.id, caller.access(), Extent(around=0))
        add(service.kb.data, given.query, hit.document, hit.start, hit.end, given.kind, caller.name)

    await service.work(keep)
    return {"kept": True}
