"""`/drafts/N`: one draft, as a reviewer reads it: what it changes, comments on lines, chunks, questions, history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, cast, get_args

from fastapi import APIRouter, Form, Path, Query, Request
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from surefind.base.access import Caller
from surefind.base.errors import NotFoundError, SourceError
from surefind.doors.http.drafting import approvals_needed, chunks_of, publish, questions_of, sees_document
from surefind.doors.http.service import Served, Service
from surefind.doors.web.markdown import links_to, part_of, rendered
from surefind.doors.web.page import back_to, document_path, is_fragment, page
from surefind.kb.drafts.difference import DiffLine, changed_lines
from surefind.kb.drafts.publishing import is_text
from surefind.kb.drafts.review import comment, resolve
from surefind.kb.drafts.values import OPEN, Comment, Draft, same_person
from surefind.kb.rights import (
    Action,
    act,
    compared,
    known_text,
    lines_to_comment,
    outdated,
    reviews,
    seen,
    seen_chunks,
    seen_comment,
    seen_comments,
    seen_document,
    seen_revision,
)

router = APIRouter(include_in_schema=False)
Number = Annotated[int, Path(ge=1, lt=2**62)]
Asked = Annotated[Annotated[int, Field(ge=1, lt=2**31)] | None, BeforeValidator(lambda given: given or None)]
"""A number of the address. Forms send an empty text for none."""


@router.get("/drafts/{number}")
async def draft(
    number: Number,
    request: Request,
    service: Served,
    revision: Asked = None,
    since: Asked = None,
    line: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    at: Asked = None,
    part: Annotated[int, Query(ge=1, lt=2**31)] = 1,
) -> Response:
    """The draft. With `since`, only what changed from that revision on; with `line`, a form to comment on it. A long
    change comes in parts: `at` is a line to show, or `part` the number of one."""
    caller = await service.caller(request, "write")

    def read() -> Response:
        context = _draft(service, caller, number, revision, since, line or at, part)
        return page(caller, "draft.html", here="drafts", commenting=line, **context)

    return await service.work_apart("difference", request, caller, read)


def _draft(
    service: Service, caller: Caller, number: int, revision: int | None, since: int | None, line: int | None, part: int
) -> dict[str, Any]:
    draft, drafts = seen(service.kb, caller, number), service.kb.drafts.store
    one = seen_revision(service.kb, caller, number, revision)
    before, after = compared(service.kb, service.reader, caller, draft, one)
    if since is not None:
        before = known_text(service.kb, caller, seen_revision(service.kb, caller, number, since))
    shown = part_of(*changed_lines(before, after), part, line)
    said = seen_comments(service.kb, caller, number)
    here, elsewhere = _placed(said, one.number, shown.lines)
    return {
        "title": f"Draft {number}: {draft.document}",
        "draft": draft,
        "shown": one,
        "since": since,
        "editable": is_text(one.name),
        "part": shown,
        "is_new": not before and not since and draft.state != "published",
        "here_comments": here,
        "elsewhere": elsewhere,
        "events": drafts.events(number),
        "open": draft.state in OPEN,
        "may": _allowed(service, caller, draft),
        "needed": approvals_needed(service),
        "is_open_server": service.gatekeeper.lets_everybody_in,
        "outdated": draft.state in OPEN and outdated(service.kb, caller, draft),
        "known": sees_document(service, caller, draft.document),
    }


def _allowed(service: Service, caller: Caller, draft: Draft) -> dict[str, bool]:
    """Returns what the caller may do with a draft now."""
    reviewer = reviews(service.kb, caller, draft)
    wrote = any(same_person(caller.name, name) for name in service.kb.drafts.store.authors(draft.number))
    approved = any(same_person(caller.name, name) for name in draft.approvals)
    return {
        "submit": draft.state == "draft",
        "approve": reviewer and not wrote and not approved and draft.state in ("in review", "approved"),
        "return": reviewer and draft.state in ("in review", "approved"),
        "publish": reviewer and len(draft.approvals) >= approvals_needed(service),
        "review": reviewer,
        "wrote": wrote,
    }


def _placed(
    said: list[Comment], revision: int, lines: Sequence[DiffLine]
) -> tuple[dict[int, list[Comment]], list[Comment]]:
    """Returns the comments by line, and those whose lines are not shown."""
    shown = {line.new for line in lines if line.new}
    here: dict[int, list[Comment]] = {}
    for one in said:
        if one.revision == revision and one.line in shown:
            here.setdefault(one.line, []).append(one)
    elsewhere = [one for one in said if one.revision != revision or one.line not in shown]
    return here, elsewhere


@router.get("/drafts/{number}/comment")
async def comment_form(
    number: Number,
    request: Request,
    service: Served,
    revision: Annotated[int, Query(ge=1, lt=2**31)],
    line: Annotated[int, Query(ge=0, lt=2**31)] = 0,
) -> Response:
    """A form to comment on a line. Without a script, it is on the draft's page."""
    caller = await service.caller(request, "write")
    await service.work(lambda: seen(service.kb, caller, number))
    if not is_fragment(request):
        return back_to(request, f"/drafts/{number}?revision={revision}&line={line}#say")
    return await service.work(
        lambda: page(caller, "comment_row.html", title="", here="", number=number, line=line, revision=revision)
    )


@router.post("/drafts/{number}/comments")
async def add_comment(
    number: Number,
    request: Request,
    service: Served,
    revision: Annotated[int, Form(ge=1, lt=2**31)],
    text: Annotated[str, Form()],
    line: Annotated[int, Form(ge=0, lt=2**31)] = 0,
    reply_to: Annotated[int | None, Form(ge=1, lt=2**62)] = None,
) -> Response:
    caller = await service.caller(request, "write")

    def write() -> None:
        most = lines_to_comment(service.kb, caller, seen(service.kb, caller, number), revision)
        comment(
            service.kb.drafts.store, number, revision, line, caller.name, text.replace("\r\n", "\n"), reply_to, most
        )

    await service.work(write)
    where = f"?revision={revision}&at={line}#L{line}" if line else "#comments"
    return back_to(request, f"/drafts/{number}{where}")


@router.post("/drafts/{number}/comments/{which}/resolve")
async def resolve_comment(number: Number, which: Number, request: Request, service: Served) -> Response:
    caller = await service.caller(request, "write")

    def write() -> None:
        seen(service.kb, caller, number)
        seen_comment(service.kb, caller, number, which)
        resolve(service.kb.drafts.store, number, which, caller.name)

    await service.work(write)
    return back_to(request, f"/drafts/{number}")


@router.post("/drafts/{number}/do/{what}")
async def do(
    number: Number,
    what: str,
    request: Request,
    service: Served,
    revision: Annotated[int, Form(ge=1, lt=2**31)] = 1,
) -> Response:
    """Submits, approves, hands back, rebases or discards a draft. `revision` is the one that the visitor saw."""
    caller = await service.caller(request, "write")
    if what not in get_args(Action):
        raise NotFoundError("There is no such action.")

    def write() -> None:
        act(service.kb, caller, number, cast(Action, what), revision)

    await (service.work_apart("upload", request, caller, write) if what == "rebase" else service.work(write))
    return back_to(request, "/drafts" if what == "discard" else f"/drafts/{number}")


@router.post("/drafts/{number}/publish")
async def publish_draft(
    number: Number, request: Request, service: Served, revision: Annotated[int | None, Form(ge=1, lt=2**31)] = None
) -> Response:
    """Starts the job that publishes a draft, and shows how far it is. `revision` is the one that the visitor saw."""
    caller = await service.caller(request, "review")
    return back_to(request, f"/jobs/{(await publish(service, caller, number, revision)).id}")


@router.get("/drafts/{number}/chunks")
async def chunks(number: Number, request: Request, service: Served) -> Response:
    """The chunks that a draft will have."""
    caller = await service.caller(request, "write")

    def read() -> Response:
        seen(service.kb, caller, number)
        found = chunks_of(lambda: seen_chunks(service.kb, caller, number))
        return _part(caller, request, "chunks", "Chunks", number, found=found)

    return await service.work_apart("upload", request, caller, read)


@router.get("/drafts/{number}/text")
async def text(number: Number, request: Request, service: Served) -> Response:
    """The newest revision as readers will see it, whatever the format of its file."""
    caller = await service.caller(request, "write")

    def read() -> Response:
        seen(service.kb, caller, number)
        try:
            made = seen_document(service.kb, caller, number)
        except SourceError as error:
            return _part(caller, request, "preview", "Text", number, made=None, rendered=None, wrong=str(error))
        find = links_to(dict.fromkeys(service.readable(caller)), made.id, document_path)
        shown = rendered(made.text, find, made.title)
        return _part(caller, request, "preview", "Text", number, made=made, rendered=shown, wrong="")

    return await service.work_apart("upload", request, caller, read)


@router.get("/drafts/{number}/questions")
async def questions(number: Number, request: Request, service: Served) -> Response:
    """The questions of the standing exam that a draft gains or loses."""
    caller = await service.caller(request, "write")
    draft = await service.work(lambda: seen(service.kb, caller, number))

    def ask() -> Response:
        asked = questions_of(service, caller, draft)
        return _part(caller, request, "questions", "Exam questions", number, found=asked)

    return await service.work_apart("preview", request, caller, ask)


def _part(caller: Caller, request: Request, name: str, title: str, number: int, **shown: Any) -> Response:
    template = f"{name}.html" if is_fragment(request) else "draft_part.html"
    return page(caller, template, title=title, here="drafts", part=f"{name}.html", number=number, **shown)
