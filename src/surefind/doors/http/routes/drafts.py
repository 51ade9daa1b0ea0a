"""`/v1/drafts`: drafts are saved, discussed, approved and published."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from surefind.doors.http.answers import as_json
from surefind.doors.http.drafting import chunks_of, publish, questions_of, restorable
from surefind.doors.http.jobs import job_data
from surefind.doors.http.service import Served, Service
from surefind.kb.drafts.difference import DiffLine, changed_lines
from surefind.kb.drafts.publishing import decoded, is_text
from surefind.kb.drafts.review import comment, resolve
from surefind.kb.drafts.values import Draft
from surefind.kb.rights import (
    Action,
    act,
    known_text,
    lines_to_comment,
    published_text,
    seen,
    seen_chunks,
    seen_comment,
    seen_comments,
    seen_revision,
    sees,
)

router = APIRouter(tags=["drafts"])
Number = Annotated[int, Path(ge=1, lt=2**62)]


class CommentRequest(BaseModel):
    """A comment on a line of a revision; on the whole draft if the line is 0."""

    model_config = ConfigDict(extra="forbid")

    revision: int = Field(ge=1, lt=2**31)
    line: int = Field(0, ge=0, lt=2**31)
    text: str = Field(min_length=1, max_length=10_000)
    reply_to: int | None = Field(None, ge=1, lt=2**62)


class RevisionRequest(BaseModel):
    """The revision that the caller read."""

    model_config = ConfigDict(extra="forbid")

    revision: int = Field(ge=1, lt=2**31)


class PublishRequest(BaseModel):
    """The revision that the caller read; the newest one if there is none."""

    model_config = ConfigDict(extra="forbid")

    revision: int | None = Field(None, ge=1, lt=2**31)


@router.get("/v1/drafts", summary="List drafts")
async def drafts(request: Request, service: Served) -> dict[str, Any]:
    """Lists the drafts: all of those that the caller may read, for reviewers; else the caller's own."""
    caller = await service.caller(request, "write")

    def read() -> dict[str, Any]:
        return {
            "drafts": [asdict(draft) for draft in service.kb.drafts.store.waiting() if sees(service.kb, caller, draft)]
        }

    return await service.work(read)


@router.get("/v1/drafts/{number}", summary="Read a draft")
async def draft(
    number: Number,
    request: Request,
    service: Served,
    revision: Annotated[int | None, Query(ge=1, lt=2**31, description="The newest one by default.")] = None,
) -> Response:
    """Returns a draft with the text of a revision, its comments, and what happened to it. `difference` compares it with
    what is published now, if the caller may read that; `lines_not_compared` are left out of it, because the texts are
    too long."""
    caller = await service.caller(request, "write")

    def read() -> bytes:
        draft = seen(service.kb, caller, number)
        shown = seen_revision(service.kb, caller, number, revision)
        now = published_text(service.kb, caller, draft.document)
        lines, more = changed_lines(now, known_text(service.kb, caller, shown)) if now else (None, 0)
        return as_json({
            **asdict(draft),
            "shown_revision": shown.number,
            "text": decoded(shown.data) if is_text(shown.name) else None,
            "difference": None if lines is None else [_line(line) for line in lines],
            "lines_not_compared": more,
            "comments": [asdict(said) for said in seen_comments(service.kb, caller, number)],
            "events": [asdict(event) for event in service.kb.drafts.store.events(number)],
        })  # fmt: skip

    # JSON of a long difference is written here: the server would write it between other requests, which then wait.
    return Response(await service.work_apart("difference", request, caller, read), media_type="application/json")


def _line(line: DiffLine) -> dict[str, Any]:
    return {"kind": line.kind, "old": line.old, "new": line.new, "pieces": line.pieces}


@router.put("/v1/drafts/{number}", summary="Save a draft")
async def save(
    number: Number,
    request: Request,
    service: Served,
    if_match: Annotated[str, Header(description="The revision that was edited.")],
    name: Annotated[str, Query(description="A new name of the file.")] = "",
) -> dict[str, Any]:
    """Saves the body of the request as a new revision. If somebody saved another one meanwhile, the answer is 409, and
    `newer` is its number."""
    caller = await service.caller(request, "write")
    edited = if_match.strip().removeprefix("W/").strip('"')
    if not edited.isascii() or not edited.isdigit() or len(edited) > 9:
        raise HTTPException(400, "If-Match must be the number of the revision that was edited.")
    data = await request.body()

    def write() -> Draft:
        seen(service.kb, caller, number)
        return service.kb.drafts.save(number, int(edited), data, caller.name, name)

    return asdict(await service.work_apart("upload", request, caller, write))


@router.post("/v1/drafts/{number}/comments", status_code=201, summary="Comment on a draft")
async def add_comment(number: Number, given: CommentRequest, request: Request, service: Served) -> dict[str, Any]:
    """Adds a comment on a line."""
    caller = await service.caller(request, "write")

    def write() -> dict[str, Any]:
        most = lines_to_comment(service.kb, caller, seen(service.kb, caller, number), given.revision)
        where = (number, given.revision, given.line)
        return asdict(comment(service.kb.drafts.store, *where, caller.name, given.text, given.reply_to, most))

    return await service.work(write)


@router.post("/v1/drafts/{number}/comments/{which}/resolve", summary="Resolve a comment")
async def resolve_comment(number: Number, which: Number, request: Request, service: Served) -> dict[str, Any]:
    """Marks a comment as resolved."""
    caller = await service.caller(request, "write")

    def write() -> dict[str, Any]:
        seen(service.kb, caller, number)
        seen_comment(service.kb, caller, number, which)
        return asdict(resolve(service.kb.drafts.store, number, which, caller.name))

    return await service.work(write)


@router.post("/v1/drafts/{number}/submit", summary="Submit a draft for review")
async def submit(number: Number, request: Request, service: Served) -> dict[str, Any]:
    """Hands a draft over to reviewers."""
    return await _done(service, request, number, "submit")


@router.post("/v1/drafts/{number}/rebase", summary="Put a draft on the newer version")
async def rebase(number: Number, request: Request, service: Served) -> dict[str, Any]:
    """Puts the text of a draft on the version that is published now, as a new revision."""
    caller = await service.caller(request, "write")

    def write() -> Draft:
        return act(service.kb, caller, number, "rebase")

    return asdict(await service.work_apart("upload", request, caller, write))


@router.post("/v1/drafts/{number}/discard", summary="Discard a draft")
async def discard(number: Number, request: Request, service: Served) -> dict[str, Any]:
    """Discards a draft: it cannot be published any more."""
    return await _done(service, request, number, "discard")


@router.post("/v1/drafts/{number}/return", summary="Hand a draft back")
async def hand_back(number: Number, request: Request, service: Served) -> dict[str, Any]:
    """Hands a draft back to its author."""
    return await _done(service, request, number, "return")


@router.post("/v1/drafts/{number}/approve", summary="Approve a draft")
async def approve(number: Number, given: RevisionRequest, request: Request, service: Served) -> dict[str, Any]:
    """Approves the newest revision. Nobody can approve a draft that they wrote a part of."""
    return await _done(service, request, number, "approve", given.revision)


@router.post("/v1/drafts/{number}/publish", status_code=202, summary="Publish a draft")
async def publish_draft(
    number: Number, request: Request, service: Served, given: PublishRequest | None = None
) -> dict[str, Any]:
    """Starts a job that publishes a draft. It needs as many approvals as [drafts] in surefind.toml says. If the body
    has a revision and there is a newer one, the answer is 409, and `newer` is its number."""
    caller = await service.caller(request, "review")
    return job_data(await publish(service, caller, number, given.revision if given else None), caller)


@router.get("/v1/drafts/{number}/preview", summary="Preview a draft")
async def preview(number: Number, request: Request, service: Served) -> dict[str, Any]:
    """Returns the chunks that a draft will have and, for reviewers, the exam questions that it gains or loses."""
    caller = await service.caller(request, "write")
    draft = await service.work(lambda: seen(service.kb, caller, number))
    cut = await service.work_apart(
        "upload", request, caller, lambda: chunks_of(lambda: seen_chunks(service.kb, caller, number))
    )
    asked = await service.work_apart("preview", request, caller, lambda: questions_of(service, caller, draft))
    return {**cut, "questions": asked}


@router.post("/v1/versions/{version}/restore", status_code=201, summary="Restore a version")
async def restore(version: Number, request: Request, service: Served) -> dict[str, Any]:
    """Makes a draft with the text of a kept version of a document that the caller may read, or of the last version of a
    retired one."""
    caller = await service.caller(request, "write")

    def write() -> dict[str, Any]:
        return asdict(service.kb.drafts.restore(restorable(service, caller, version), caller.name))

    return await service.work_apart("upload", request, caller, write)


async def _done(service: Service, request: Request, number: int, action: Action, revision: int = 0) -> dict[str, Any]:
    caller = await service.caller(request, "write")
    return asdict(await service.work(lambda: act(service.kb, caller, number, action, revision)))
