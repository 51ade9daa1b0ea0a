"""`/v1/documents`, `/v1/passages`, `/v1/versions`: what is there to read, and uploads."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.exceptions import HTTPException

from surefind.doors.http.drafting import retire, retired
from surefind.doors.http.jobs import job_data
from surefind.doors.http.service import Served
from surefind.engine.search.hits import Extent
from surefind.kb.rights import may_read_version

router = APIRouter(tags=["documents"])
_MAX_DOCUMENTS = 1_000
Generation = Annotated[int | None, Query(ge=0, lt=2**62, description="Read this generation, if it is kept.")]


@router.get("/v1/documents", summary="List documents")
async def documents(
    request: Request,
    service: Served,
    below: Annotated[str, Query(max_length=500, description="Only ids that begin with this.")] = "",
    offset: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    limit: Annotated[int, Query(ge=1, le=_MAX_DOCUMENTS)] = 100,
    generation: Generation = None,
) -> dict[str, Any]:
    """Lists the documents that the caller may read, in order of id. `next` is the offset of the next page."""
    caller = await service.caller(request, "read")

    def read() -> dict[str, Any]:
        reader = service.reader_for(caller, generation)
        listed = reader.listed(caller.access(), below, offset, limit + 1)
        rest = offset + limit if len(listed) > limit else None
        return {
            "documents": [asdict(about) for about in listed[:limit]], "next": rest, "generation": reader.generation
        }  # fmt: skip

    return await service.work(read)


@router.get("/v1/documents/{document_id:path}", summary="Read a document")
async def document(
    document_id: str,
    request: Request,
    service: Served,
    start: Annotated[int, Query(ge=0, lt=2**31, description="The first character.")] = 0,
    end: Annotated[int | None, Query(ge=0, lt=2**31, description="The character after the last one.")] = None,
    generation: Generation = None,
) -> dict[str, Any]:
    """Returns a document: its text, or a part of it, as it was extracted, and where it is from."""
    caller = await service.caller(request, "read")

    def read() -> dict[str, Any]:
        body_of, about = service.reader_for(caller, generation).document(document_id, caller.access())
        body = {"text": body_of.text[start:end], "start": start, "format": body_of.format}
        return {**asdict(about), "metadata": dict(body_of.metadata), **body}

    return await service.work(read)


@router.get("/v1/passages/{passage_id}", summary="Read a passage")
async def passage(
    passage_id: str,
    request: Request,
    service: Served,
    text: Annotated[str, Query(max_length=20, description="`parent`, `passage` or `window=N`.")] = "parent",
    max_chars: int | None = None,
    query: Annotated[str, Query(max_length=2_000, description="Mark the sentence that fits this question best.")] = "",
    generation: Generation = None,
) -> dict[str, Any]:
    """Returns the passage with the id of a hit."""
    caller = await service.caller(request, "read")
    extent = Extent.parse(text, max_chars)
    hit = await service.work(
        lambda: service.reader_for(caller, generation).passage(passage_id, caller.access(), extent, query)
    )
    return hit.to_dict()


@router.get("/v1/versions", summary="List the versions of a document")
async def versions(
    document: Annotated[str, Query(min_length=1, max_length=500)],
    request: Request,
    service: Served,
) -> dict[str, Any]:
    """Lists the kept versions of a document, newest first: those that the caller may read by their own access list."""
    caller = await service.caller(request, "read")

    def read() -> dict[str, Any]:
        if gone := retired(service, caller, document):
            return {"document": document, "retired": True, "versions": [asdict(gone)]}
        service.reader().document(document, caller.access())  # raises if the caller may not read it now
        seen = [
            version
            for version in service.kb.history(document)
            if may_read_version(service.kb, version, caller.access())
        ]
        return {"document": document, "retired": False, "versions": [asdict(version) for version in seen]}

    return await service.work(read)


@router.post("/v1/documents/{document_id:path}/retire", status_code=202, summary="Retire a document")
async def retire_document(document_id: str, request: Request, service: Served) -> dict[str, Any]:
    """Starts a job that retires a document: no search finds it any more, and its text is kept. Restoring its last
    version (`/v1/versions`) makes a draft of it."""
    caller = await service.caller(request, "review")
    return job_data(await retire(service, caller, document_id), caller)


@router.post("/v1/documents", status_code=201, summary="Upload a draft")
async def upload(
    name: Annotated[str, Query(description="The name of the file; its ending says what it is.", examples=["fees.md"])],
    request: Request,
    service: Served,
    document: Annotated[str, Query(description="The document to make a draft of; the name by default.")] = "",
) -> dict[str, Any]:
    """Takes in a file, the body of the request, as a draft. No search finds it before a reviewer publishes it."""
    caller = await service.caller(request, "write")
    data = await request.body()
    if not data:
        raise HTTPException(400, "The body is empty. Send the file as the body of the request.")

    return asdict(
        await service.work_apart(
            "upload",
            request,
            caller,
            lambda: service.kb.drafts.add_bytes(name, data, document, caller.name, access=caller.access()),
        )
    )
