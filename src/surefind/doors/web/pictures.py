"""`/picture`: a picture of a synced folder, for a document that shows it, with the rights of that document.

A picture is served only if a synced Markdown file that the caller may read shows it, it lies below the same source
folder without links, hidden folders or excluded paths, and no access rule keeps its path from the caller. Everything
else is "no picture": also for files of archives, drafts and repositories, whose folders are not the user's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Annotated
from urllib.parse import unquote, urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from surefind.base.access import access_lists
from surefind.base.errors import NotFoundError, SourceError
from surefind.base.text.links import site_paths
from surefind.base.types import Document
from surefind.doors.auth.caller import Caller
from surefind.doors.http.service import Served, Service
from surefind.engine.files.opening import read_bytes
from surefind.engine.store.rows import About
from surefind.kb import KnowledgeBase

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
