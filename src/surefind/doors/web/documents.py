"""`/documents`: the documents that a visitor may read, as a tree; one document, its versions and what changed.

`/retire`: asks before a document is retired, and says what that affects.

`/picture`: a picture of a synced folder, for a document that shows it, with the rights of that document.

A picture is served only if a synced Markdown file that the caller may read shows it, it lies below the same source
folder without links, hidden folders or excluded paths, and no access rule keeps its path from the caller. Everything
else is "no picture": also for files of archives, drafts and repositories, whose folders are not the user's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlencode
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import Response

from surefind.base.access import Access, Caller, access_lists
from surefind.base.errors import NotFoundError, NothingIndexedError, SourceError
from surefind.base.text.blocks import site_paths
from surefind.base.types import Document
from surefind.doors.http.drafting import affected, restorable, retire, retired
from surefind.doors.http.service import Served, Service
from surefind.doors.web.markdown import NOWHERE, line_at, lines_of, links_to, part_of, rendered_sheet, sheet
from surefind.doors.web.page import back_to, document_path, is_fragment, page
from surefind.engine.files.opening import read_bytes
from surefind.engine.search.reader import Searcher
from surefind.engine.store.versions import About, Version
from surefind.kb import KnowledgeBase
from surefind.kb.drafts.difference import changed_lines
from surefind.kb.drafts.publishing import shown
from surefind.kb.rights import Decision, may_read_version, sees

router = APIRouter(include_in_schema=False)
Picture = Callable[[str], str]
"""Returns the address of a picture that a document shows; empty if there is none."""
_MAX_MB = 10.0
_MAX_TARGETS = 2_000
"""Pictures of a document that can be shown, at most."""
_TARGET = re.compile(r"!\[[^\[\]]{0,500}\]\([ \t]*<?([^\s()<>]{1,500})")
_KINDS = {
    ".png": ("image/png", (b"\x89PNG\r\n\x1a\n",)),
    ".jpg": ("image/jpeg", (b"\xff\xd8\xff",)),
    ".jpeg": ("image/jpeg", (b"\xff\xd8\xff",)),
    ".gif": ("image/gif", (b"GIF87a", b"GIF89a")),
    ".webp": ("image/webp", (b"RIFF",)),
    ".svg": ("image/svg+xml", (b"<svg", b"<?xml", b"<!")),
}
"""The type of a picture by its suffix, and what such a file begins with."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}
"""A picture is data: a script in an SVG does not run, also if somebody opens it by itself."""


@router.get("/picture")
async def picture(
    request: Request,
    service: Served,
    document: Annotated[str, Query(max_length=1_000)],
    path: Annotated[str, Query(max_length=1_000)],
) -> Response:
    """A picture that a document shows. `path` is the target of its link, as the document writes it."""
    caller = await service.caller(request, "read")
    return await service.work(lambda: _read(service, caller, document, path))


def _read(service: Service, caller: Caller, document_id: str, target: str) -> Response:
    document, about = service.reader().document(document_id, caller.access())
    if unquote(target) not in _targets(document):
        raise _none()
    for root, relative in _files(service.kb, caller, document, about, target):
        kind, heads = _KINDS[PurePosixPath(relative).suffix.lower()]
        try:
            content = read_bytes(root / relative, f"{root}/{relative}", _MAX_MB)
        except (OSError, SourceError):
            continue
        if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(heads):
            return Response(content, media_type=kind, headers=_HEADERS)
    raise _none()


def _targets(document: Document) -> set[str]:
    """Returns the targets of the pictures that a document shows."""
    return {unquote(match[1]) for match in islice(_TARGET.finditer(document.text), _MAX_TARGETS)}


def _none() -> NotFoundError:
    return NotFoundError("There is no such picture.")


def pictures_of(kb: KnowledgeBase, caller: Caller, document: Document, about: About) -> Picture:
    """Returns what finds the address of a picture that a document shows."""

    targets = _targets(document)

    def find(target: str) -> str:
        if unquote(target) not in targets or next(_files(kb, caller, document, about, target), None) is None:
            return ""
        return f"/picture?{urlencode({'document': document.id, 'path': target}, errors='replace')}"

    return find


def _files(
    kb: KnowledgeBase, caller: Caller, document: Document, about: About, target: str
) -> Iterator[tuple[Path, str]]:
    """Yields the files that the target of a picture may mean and that the caller may see: the real folder of the
    source, and the path below it."""
    sources = [source for source in kb.catalogue.sources() if source.name == about.source]
    if len(sources) != 1 or sources[0].origin or document.format != "markdown" or not about.source:
        return
    if not document.id.endswith(about.path):  # a member of an archive
        return
    above = document.id[: len(document.id) - len(about.path)]
    root = Path(os.path.realpath(sources[0].root))
    if not root.is_dir() or not (root / about.path).is_file():
        return
    path = unquote(target.partition("#")[0].partition("?")[0])
    for relative in site_paths(about.path, path):
        parts = PurePosixPath(relative).parts
        if not parts or "\0" in relative or "\\" in relative or PurePosixPath(relative).is_absolute():
            continue
        if any(part.startswith(".") for part in parts) or PurePosixPath(relative).suffix.lower() not in _KINDS:
            continue
        if kb.settings.files.excludes(relative):
            continue
        rules = access_lists(document.acl, (relative, above + relative), kb.settings.access)
        if not caller.access().admits([rule.groups for rule in rules]):
            continue
        file = root / relative
        if os.path.realpath(file) == f"{root}/{relative}" and file.is_file() and file.stat().st_size <= _MAX_MB * 1e6:
            yield root, relative


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
        for draft in service.kb.drafts.store.waiting(document_id)
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
            for version in service.kb.history(document_id)
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
