"""`/documents`: the documents that a visitor may read, as a tree; one document, its versions and what changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import Response

from surefind.base.access import Access, access_lists
from surefind.base.errors import NotFoundError, NothingIndexedError
from surefind.doors.auth.caller import Caller
from surefind.doors.http.retiring import restorable, retired
from surefind.doors.http.service import Served, Service
from surefind.doors.web.lines import NOWHERE, line_at, lines_of, part_of, sheet
from surefind.doors.web.markdown import links_to, rendered_sheet
from surefind.doors.web.page import back_to, document_path, is_fragment, page
from surefind.doors.web.pictures import pictures_of
from surefind.engine.search.reader import Searcher
from surefind.engine.store.rows import Version
from surefind.kb.decisions import Decision
from surefind.kb.draft_rights import sees
from surefind.kb.drafts.difference import changed_lines
from surefind.kb.drafts.source import shown
from surefind.kb.version_rights import may_read_version

router = APIRouter(include_in_schema=False)
_DOCUMENTS_A_PAGE = 200
"""Documents of a folder, or of a filter, that are shown at a time."""
_words: WeakKeyDictionary[Searcher, dict[str, str]] = WeakKeyDictionary()
"""The name and the title of each document of a generation, in small letters, once somebody has filtered them."""


@dataclass(frozen=True)
class Folder:
    """A folder below another one."""

    name: str
    path: str
    documents: int


@dataclass(frozen=True)
class Level:
    """What is in a folder, or what a filter finds."""

    path: str
    folders: Sequence[Folder]
    documents: Sequence[tuple[str, str]]
    """The id and the title of each document."""
    more: int | None
    """Where the next documents begin; None if there are no more."""
    total: int
    """The documents in the folder and in all folders below it."""


@router.get("/documents")
async def tree(
    request: Request,
    service: Served,
    inside: Annotated[str, Query(alias="in", max_length=500)] = "",
    find: Annotated[str, Query(max_length=200)] = "",
    start: Annotated[int, Query(ge=0, lt=2**31)] = 0,
) -> Response:
    """The tree, or one level of it, if htmx opens a folder."""
    caller = await service.caller(request, "read")
    wanted = find.strip()
    template = "level.html" if is_fragment(request) else "documents.html"

    def read() -> Response:
        level = _found(service, caller, wanted, start) if wanted else _level(service, caller, inside, start)
        return page(
            caller, template, title=inside or "Documents", here="documents", level=level, find=find,
            crumbs=_crumbs(inside),
        )  # fmt: skip

    return await service.work(read)


def _level(service: Service, caller: Caller, inside: str, start: int) -> Level:
    path = f"{inside.strip('/')}/" if inside.strip("/") else ""
    try:
        reader = service.reader()
    except NothingIndexedError:
        return Level(path, (), (), None, 0)
    below = [document_id for document_id, _ in reader.view.readable(caller.access()) if document_id.startswith(path)]
    counts: dict[str, int] = {}
    direct = []
    for document_id in below:
        name, slash, _ = document_id[len(path) :].partition("/")
        if slash:
            counts[name] = counts.get(name, 0) + 1
        else:
            direct.append(document_id)
    folders = [Folder(name, path + name, count) for name, count in sorted(counts.items())]
    return _made(reader, caller, path, folders if not start else [], direct, start, len(below))


def _found(service: Service, caller: Caller, find: str, start: int) -> Level:
    try:
        reader = service.reader()
    except NothingIndexedError:
        return Level("", (), (), None, 0)
    known = _words.get(reader)
    if known is None:
        titles = reader.titles(reader.view.readable(Access.owner()))
        known = _words[reader] = {
            document_id: f"{document_id} {title}".casefold() for document_id, title in titles.items()
        }
    words = find.casefold().split()
    readable = [document_id for document_id, _ in reader.view.readable(caller.access())]
    names = [document_id for document_id in readable if all(word in known[document_id] for word in words)]
    return _made(reader, caller, "", [], names, start, len(names))


def _made(
    reader: Searcher, caller: Caller, path: str, folders: list[Folder], ids: list[str], start: int, total: int
) -> Level:
    shown_ids = ids[start : start + _DOCUMENTS_A_PAGE]
    versions = dict(reader.view.readable(caller.access()))
    titles = reader.titles([(document_id, versions[document_id]) for document_id in shown_ids])
    more = start + _DOCUMENTS_A_PAGE if start + _DOCUMENTS_A_PAGE < len(ids) else None
    return Level(path, folders, [(document_id, titles.get(document_id, "")) for document_id in shown_ids], more, total)


def _crumbs(inside: str) -> list[tuple[str, str]]:
    parts = [part for part in inside.split("/") if part]
    return [(part, "/".join(parts[: at + 1])) for at, part in enumerate(parts)]


@router.post("/documents/restore")
async def restore(request: Request, service: Served, version: Annotated[int, Form(ge=1, lt=2**62)]) -> Response:
    """Makes a draft with the text of an earlier version."""
    caller = await service.caller(request, "write")

    def write() -> int:
        return service.kb.drafts.restore(restorable(service, caller, version), caller.name).number

    return back_to(request, f"/drafts/{await service.work_apart('upload', request, caller, write)}")


@router.get("/documents/{document_id:path}")
async def document(
    document_id: str,
    request: Request,
    service: Served,
    line: Annotated[int, Query(ge=1, lt=2**31)] = 1,
    passage: Annotated[str, Query(max_length=100)] = "",
    query: Annotated[str, Query(max_length=2_000)] = "",
    before: Annotated[int | None, Query(ge=1, lt=2**62)] = None,
    after: Annotated[int | None, Query(ge=1, lt=2**62)] = None,
    part: Annotated[int, Query(ge=1, lt=2**31)] = 1,
    view: Annotated[Literal["read", "source"], Query()] = "read",
) -> Response:
    """A document as it is searched, with its metadata and versions; or what changed between two versions. Markdown is
    rendered, or shown line by line, as `source`."""
    caller = await service.caller(request, "read")

    def read() -> Response:
        if gone := retired(service, caller, document_id):
            return page(caller, "retired.html", title=gone.title or document_id, here="documents", version=gone)
        context = {"changed": None, **_document(service, caller, document_id, line, passage, query, view)}
        versions: list[Version] = context["versions"]
        if before and after:
            context |= _changes(service, versions, before, after, part)
        return page(caller, "document.html", here="documents", **context)

    if before and after:
        return await service.work_apart("difference", request, caller, read)
    return await service.work(read)


def _document(
    service: Service, caller: Caller, document_id: str, line: int, passage: str, query: str, view: str
) -> dict[str, Any]:
    reader, access = service.reader(), caller.access()
    body, about = reader.document(document_id, access)
    lists = access_lists(body.acl, (about.path, document_id), service.kb.settings.access)
    first = next((place.line for place in body.places[:1]), 0) or 1
    marked, sentence = _marked(reader, caller, document_id, passage, query) if passage else (NOWHERE, NOWHERE)
    if marked[1]:
        line = line_at(body.text, (sentence if sentence[1] else marked)[0], first)
    shown_page = sheet(body.text, line, first)
    rendered = None
    if body.format == "markdown" and view == "read" and shown_page.whole:
        find = links_to(dict(reader.view.readable(access)), document_id, document_path)
        picture = pictures_of(service.kb, caller, body, about)
        rendered = rendered_sheet(body, shown_page, find, marked, sentence, picture)
    drafts = [
        draft
        for draft in service.kb.desk.waiting(document_id)
        if caller.may("write") and sees(service.kb, caller, draft)
    ]
    return {
        "title": body.title or document_id,
        "document": body,
        "about": about,
        "readers": Decision(document_id, lists).readers,
        "why": Decision(document_id, lists).reason,
        "sheet": shown_page,
        "rendered": rendered,
        "source": view == "source",
        "marked": lines_of(body.text, *marked, first),
        "sentence": lines_of(body.text, *sentence, first),
        "versions": [
            version
            for version in service.kb.versions_of(document_id)
            if may_read_version(service.kb, version, caller.access())
        ],
        "drafts": drafts,
        "crumbs": _crumbs(document_id)[:-1],
        "query": query,
        "passage": passage,
    }


def _marked(
    reader: Searcher, caller: Caller, document_id: str, passage: str, query: str
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Returns the characters of a passage, and of its best sentence; zeros if the passage is gone."""
    try:
        hit = reader.passage(passage, caller.access(), query=query)
    except NotFoundError:
        return NOWHERE, NOWHERE
    if hit.document != document_id:
        return NOWHERE, NOWHERE
    return (hit.start, hit.end), hit.sentence if hit.sentence and query else NOWHERE


def _changes(service: Service, versions: Sequence[Version], before: int, after: int, part: int) -> dict[str, Any]:
    """Compares two versions that the caller may read."""
    known = {version.number for version in versions}
    if not {before, after} <= known:
        raise NotFoundError("There is no such version among those you may read.")
    old, new = (shown(service.kb.catalogue.versions.document(number)) for number in (before, after))
    return {"changed": {"before": before, "after": after, "part": part_of(*changed_lines(old, new), part)}}
