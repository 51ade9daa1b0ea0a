"""`/v1/search`: the passages that answer a question.

`/v1/ask`: an answer with a citation behind every sentence.

`/v1/facets`: the metadata to filter by, with the number of documents of each value.

`/v1/feedback`: what people thought of a hit. It becomes judgments of the exam `feedback`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlencode

from fastapi import APIRouter, Body, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response, StreamingResponse

from surefind.base.access import Access, Caller
from surefind.base.errors import QueryError, SurefindError
from surefind.base.types import Effort, SearchResult
from surefind.doors.http.answers import Turns, shown_to, turns_of
from surefind.doors.http.guard import same_origin
from surefind.doors.http.problems import LOG
from surefind.doors.http.service import Served, Service
from surefind.engine.search.hits import Extent
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.search.reader import MAX_K, RequestedSearch
from surefind.kb.answer.answering import answer, steps
from surefind.kb.answer.values import AnswerStep
from surefind.lab.exam.keeping import add

router = APIRouter(tags=["search"])
_FILTERS = 20


class SearchRequest(BaseModel):
    """What to search for, and how much of it to return."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, description="The question.", examples=["When is the wire cutoff?"])
    k: int | None = Field(None, ge=1, description="How many hits; the setting `k` by default.")
    offset: int = Field(0, ge=0, le=MAX_K, description="Hits to skip.")
    pipeline: str | None = Field(
        None, max_length=500, description="A pipeline of surefind.toml by name; admins may send a spec."
    )
    where: list[Annotated[str, Field(max_length=500)]] = Field(
        default_factory=list, max_length=_FILTERS, description="Filters on metadata: `status=approved`."
    )
    text: str = Field("parent", max_length=20, description="`parent`, `passage` or `window=N`.")
    max_chars: int | None = Field(None, description="Cut each text around its best sentence.")
    confidence: Effort | None = Field(
        None, description="How to find out how sure the search is; `quick` unless the settings say otherwise."
    )
    min_confidence: float | None = Field(
        None, ge=0, le=1, description="Return no hits if it is less likely than this that the first one answers."
    )
    generation: int | None = Field(
        None, ge=0, lt=2**62, description="Continue the ranking of this generation, as `next` does."
    )


class SearchWithHistory(SearchRequest):
    """A search that may follow other questions."""

    history: Turns


@router.get("/v1/search", summary="Search", responses={200: {"content": {"application/json": {}}}})
async def search(wanted: Annotated[SearchRequest, Query()], request: Request, service: Served) -> Response:
    """Finds the passages that _answer a question, among the documents that the caller may read. `next` continues the
    same ranking, on the same generation of the documents."""
    return await _answer(wanted, request, service)


@router.post("/v1/search", summary="Search, with the request as JSON")
async def search_json(wanted: Annotated[SearchWithHistory, Body()], request: Request, service: Served) -> Response:
    """Does what GET does, and takes a `history`; then `next` is null, and `offset` continues."""
    return await _answer(wanted, request, service)


async def _answer(wanted: SearchRequest, request: Request, service: Service) -> Response:
    caller = await service.caller(request, "read")
    pipeline = service.pipeline(wanted.pipeline, caller)
    effort = wanted.confidence or service.kb.settings.effort()

    def do() -> tuple[bytes, SearchResult, Access]:
        return _search(service, caller, wanted, pipeline, effort)

    body, result, access = await service.search_apart(request, caller, pipeline, effort, do)
    kept = service.kb.settings.keep_queries and same_origin(request.headers)
    task = BackgroundTask(service.kb.queries.keep, result, access) if kept else None
    return Response(body, media_type="application/json", background=task)


def _search(
    service: Service, caller: Caller, wanted: SearchRequest, pipeline: Pipeline, effort: Effort
) -> tuple[bytes, SearchResult, Access]:
    """Returns the JSON of the _answer, and the result."""
    settings = service.settings
    if len(wanted.query) > settings.max_query:
        raise QueryError(f"The query has {len(wanted.query):,} characters; the limit is {settings.max_query:,}.")
    k = min(service.kb.settings.k, settings.max_k) if wanted.k is None else wanted.k
    if k > settings.max_k:
        raise QueryError(f"k may be {settings.max_k} at most, not {k}.")
    reader = service.reader_for(caller, wanted.generation)
    access = caller.access(wanted.where)
    extent = Extent.parse(wanted.text, wanted.max_chars)
    least = service.kb.settings.min_confidence if wanted.min_confidence is None else wanted.min_confidence
    before = turns_of(wanted.history) if isinstance(wanted, SearchWithHistory) else ()
    asked = RequestedSearch(wanted.query, access, pipeline, k, wanted.offset, extent, least, effort, before)
    _answer = service.search(reader, asked)
    following = None if before else _next(wanted, k, _answer.result)
    return _answer.json_for(caller, next=following), _answer.result, access


def _next(wanted: SearchRequest, k: int, result: SearchResult) -> str | None:
    """Returns the address of the next hits, on the generation of these."""
    offset = wanted.offset + k
    if len(result.hits) < k or offset > MAX_K:
        return None
    given: dict[str, Any] = wanted.model_dump(exclude_defaults=True)
    given |= {"query": wanted.query, "k": k, "offset": offset, "generation": result.generation}
    return "/v1/search?" + urlencode(given, doseq=True, errors="replace")


class AskRequest(BaseModel):
    """A question."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, description="The question.", examples=["When is the wire cutoff?"])
    pipeline: str | None = Field(None, max_length=500, description="A pipeline of surefind.toml by name.")
    quote: bool = Field(False, description="Quote passages; ask no language model.")
    min_confidence: float | None = Field(None, ge=0, le=1, description="Below it, nothing here answers the question.")
    stream: bool = Field(False, description="Send the answer as server-sent events, as it comes.")
    history: Turns


@router.post("/v1/ask", summary="Ask a question", response_class=JSONResponse)
async def ask(wanted: AskRequest, request: Request, service: Served) -> Response:
    """Answers a question from the documents that the caller may read. The sentences are quotes (with `state`
    `not_sure`, of the closest passages), and after them what a language model in surefind.toml writes: each of its
    sentences cites passages, and is checked against them. With `stream`, the events are `search` with the passages,
    `sentence` for each quote and sentence, and `end` with the whole answer."""
    caller = await service.caller(request, "read")
    if len(wanted.query) > service.settings.max_query:
        raise QueryError(f"The question has more than {service.settings.max_query:,} characters.")
    pipeline = service.pipeline(wanted.pipeline, caller)
    options: dict[str, Any] = {
        "pipeline": pipeline, "quote": wanted.quote, "min_confidence": wanted.min_confidence,
        "history": turns_of(wanted.history),
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
    return cast(dict[str, Any], value.to_dict())


@router.get("/v1/facets", summary="List the metadata to filter by")
async def facets(
    request: Request,
    service: Served,
    where: Annotated[
        list[Annotated[str, Field(max_length=500)]],
        Query(max_length=_FILTERS, description="The filters that are chosen: `status=approved`."),
    ] = [],  # noqa: B006 - FastAPI copies it
) -> dict[str, Any]:
    """Returns the metadata keys that help to filter: with few values on many documents, or those that the settings name
    (`filters`). `path` is the folder. Each value has the number of documents that the caller may read and that have it;
    the filters in `where` apply to the counts of the other keys."""
    caller = await service.caller(request, "read")

    def read() -> dict[str, Any]:
        reader = service.reader()
        facets = [
            {"key": facet.key, "values": [{"value": value, "documents": count} for value, count in facet.values]}
            for facet in reader.facets(caller.access(where), service.kb.settings.filters)
        ]
        return {"facets": facets, "generation": reader.generation}

    return await service.work(read)


feedback_router = APIRouter(tags=["feedback"])


class FeedbackRequest(BaseModel):
    """A thumb or a click: which question, and which hit."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, max_length=2_000, description="The question as it was asked.")
    id: str = Field(max_length=64, description="The id of the hit.")
    kind: Literal["up", "down", "click"]


@feedback_router.post("/v1/feedback", status_code=201, summary="Give feedback on a hit")
async def feedback(given: FeedbackRequest, request: Request, service: Served) -> dict[str, Any]:
    """Keeps a thumb or a click. `surefind exam feedback` makes an exam of them."""
    caller = await service.caller(request, "write")

    def keep() -> None:
        hit = service.reader().passage(given.id, caller.access(), Extent(around=0))
        add(service.kb.data, given.query, hit.document, hit.start, hit.end, given.kind, caller.name)

    await service.work(keep)
    return {"kept": True}
