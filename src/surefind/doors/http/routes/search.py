"""`/v1/search`: the passages that answer a question."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Body, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.background import BackgroundTask
from starlette.responses import Response

from surefind.base.access import Access
from surefind.base.errors import QueryError
from surefind.base.types import Effort, SearchResult
from surefind.doors.auth.caller import Caller
from surefind.doors.http.guard import same_origin
from surefind.doors.http.service import Served, Service
from surefind.engine.search.extent import Extent
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.search.reader import MAX_K, RequestedSearch

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


@router.get("/v1/search", summary="Search", responses={200: {"content": {"application/json": {}}}})
async def search(wanted: Annotated[SearchRequest, Query()], request: Request, service: Served) -> Response:
    """Finds the passages that answer a question, among the documents that the caller may read. `next` continues the
    same ranking, on the same generation of the documents."""
    return await answer(wanted, request, service)


@router.post("/v1/search", summary="Search, with the request as JSON")
async def search_json(wanted: Annotated[SearchRequest, Body()], request: Request, service: Served) -> Response:
    """Does what GET does."""
    return await answer(wanted, request, service)


async def answer(wanted: SearchRequest, request: Request, service: Service) -> Response:
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
    """Returns the JSON of the answer, and the result."""
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
    asked = RequestedSearch(wanted.query, access, pipeline, k, wanted.offset, extent, least, effort)
    answer = service.search(reader, asked)
    return answer.json_for(caller, next=_next(wanted, k, answer.result)), answer.result, access


def _next(wanted: SearchRequest, k: int, result: SearchResult) -> str | None:
    """Returns the address of the next hits, on the generation of these."""
    offset = wanted.offset + k
    if len(result.hits) < k or offset > MAX_K:
        return None
    given: dict[str, Any] = wanted.model_dump(exclude_defaults=True)
    given |= {"query": wanted.query, "k": k, "offset": offset, "generation": result.generation}
    return "/v1/search?" + urlencode(given, doseq=True, errors="replace")
