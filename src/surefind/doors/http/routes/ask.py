"""`/v1/ask`: an answer with a citation behind every sentence."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response, StreamingResponse

from surefind.base.errors import QueryError, SurefindError
from surefind.doors.auth.caller import Caller
from surefind.doors.http.answers import shown_to
from surefind.doors.http.problems import LOG
from surefind.doors.http.service import Served
from surefind.kb.answer.answering import answer, steps
from surefind.kb.answer.values import AnswerStep

router = APIRouter(tags=["search"])


class AskRequest(BaseModel):
    """A question."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, description="The question.", examples=["When is the wire cutoff?"])
    pipeline: str | None = Field(None, max_length=500, description="A pipeline of surefind.toml by name.")
    quote: bool = Field(False, description="Quote sentences; ask no language model.")
    min_confidence: float | None = Field(None, ge=0, le=1, description="Below it, nothing here answers the question.")
    stream: bool = Field(False, description="Send the answer as server-sent events, as it comes.")


@router.post("/v1/ask", summary="Ask a question", response_class=JSONResponse)
async def ask(wanted: AskRequest, request: Request, service: Served) -> Response:
    """Answers a question from the documents that the caller may read. Every sentence cites passages, and is checked
    against them. Without a language model in surefind.toml, the sentences are quotes. With `stream`, the events are
    `search` with the passages, `sentence` for each sentence, and `end` with the whole answer."""
    caller = await service.caller(request, "read")
    if len(wanted.query) > service.settings.max_query:
        raise QueryError(f"The question has more than {service.settings.max_query:,} characters.")
    pipeline = service.pipeline(wanted.pipeline, caller)
    options: dict[str, Any] = {
        "pipeline": pipeline, "quote": wanted.quote, "min_confidence": wanted.min_confidence
    }  # fmt: skip
    if wanted.stream:
        made_steps = service.answer_stream(
            request, caller, pipeline, wanted.quote,
            lambda: steps(service.kb, wanted.query, caller.access(), **options),
        )  # fmt: skip
        return StreamingResponse(_events(made_steps, caller, request.state.id), media_type="text/event-stream")
    made = await service.answer_apart(
        request, caller, pipeline, wanted.quote, lambda: answer(service.kb, wanted.query, caller.access(), **options)
    )
    return JSONResponse(shown_to(caller, made.to_dict()))


async def _events(made: AsyncIterator[AnswerStep], caller: Caller, request_id: str) -> AsyncIterator[str]:
    try:
        async for step in made:
            yield f"event: {step.kind}\ndata: {json.dumps(_data(step, caller), ensure_ascii=False)}\n\n"
    except SurefindError as error:  # the answer has begun, so its status cannot change
        LOG.error("request %s: %s: %s", request_id, type(error).__name__, error)
        yield f"event: error\ndata: {json.dumps({'detail': 'The answer failed.', 'request_id': request_id})}\n\n"


def _data(step: AnswerStep, caller: Caller) -> dict[str, Any]:
    value: Any = step.value
    if step.kind != "sentence":
        return shown_to(caller, value.to_dict())
    return {"text": value.text, "citations": list(value.citations)}
