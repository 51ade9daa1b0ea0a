"""`/v1/facets`: the metadata to filter by, with the number of documents of each value."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field

from surefind.doors.http.service import Served

router = APIRouter(tags=["search"])
_FILTERS = 20


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
