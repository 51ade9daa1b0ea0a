"""Prepares a file: reads, cleans and cuts it. The result depends only on the file and the settings; no database or
service is used.

    prepare(Task("markdown", "/docs/a.md", "a.md", "markdown(tokens=250, …) + headings"), scope) -> Prepared

It runs in a child process (`write.child`), under limits. The result is passed to the parent as JSON: a hostile file may
take over the child, so the parent accepts no pickled objects from it. Layouts that need a service cut later, in the
parent process, which has the services.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from surefind import spec
from surefind.errors import SourceError
from surefind.files.access_head import read_checked
from surefind.files.inside import Scope
from surefind.files.opening import held
from surefind.services import LocalServices
from surefind.types import Chunk, Document, Place
from surefind.write.layout import Layout

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""Characters that the database cannot store: NUL and lone surrogates."""


@dataclass(frozen=True)
class Task:
    """The file to prepare, and how."""

    reader: str
    """The spec of the reader."""
    path: str
    id: str
    layout: str = ""
    """The layout to cut the documents in; empty if they are not to be cut."""
    real: str = ""
    """The path with links resolved, as it was when the file was found; empty if it is not to be checked."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Prepared:
    """The contents of a file: documents with their chunks, and the parts that could not be read."""

    documents: list[Document]
    chunks: list[list[Chunk]]
    """The chunks of each document; empty if the task named no layout."""
    complaints: list[tuple[str, str]]
    """(member of the file or "", reason) of each part that could not be read."""


def prepare(task: Task, here: Scope) -> Prepared:
    """Reads the documents of a file and cuts them."""
    reader = spec.make("read", task.reader)
    path = Path(task.path)
    documents, chunks, size = [], [], 0
    with held(path, task.real) if task.real else contextlib.nullcontext():
        for found in read_checked(reader, path, task.id):
            size += len(found.text)
            if size > here.limits.unpacked_mb * 1e6:
                raise SourceError(f"gives more than {here.limits.unpacked_mb:g} MB of text (max_unpacked_mb)")
            document = storable(found)
            documents.append(document)
            if task.layout:
                chunks.append(_layout(task.layout).cut(document, LocalServices()))
    return Prepared(documents, chunks, here.complaints)


@lru_cache(maxsize=4)
def _layout(text: str) -> Layout:
    return Layout.read(text)


def storable(document: Document) -> Document:
    """Replaces each character that the database cannot store by a blank, so that offsets stay the same."""
    facts = json.dumps(dict(document.metadata), ensure_ascii=False)
    if not any(map(_UNSTORABLE.search, (document.text, document.title, document.id, facts))):
        return document
    return Document(
        _UNSTORABLE.sub(" ", document.id),
        _UNSTORABLE.sub(" ", document.text),
        _UNSTORABLE.sub(" ", document.title),
        document.format,
        json.loads(_UNSTORABLE.sub(" ", facts)),
        document.acl,
        document.places,
    )


# ---------------------------------------------------------------- the JSON form


def to_data(prepared: Prepared) -> dict[str, Any]:
    """Returns the JSON form of a result."""
    return {
        "documents": [[d.id, d.text, d.title, d.format, dict(d.metadata), d.acl, d.places] for d in prepared.documents],
        "chunks": [[[c.start, c.end, c.headings, c.context, c.parent] for c in cut] for cut in prepared.chunks],
        "complaints": prepared.complaints,
    }


def from_data(data: dict[str, Any]) -> Prepared:
    """Reads a result from its JSON form."""
    documents = [
        Document(id, text, title, format, metadata, tuple(acl), tuple(Place(at, name) for at, name in places))
        for id, text, title, format, metadata, acl, places in data["documents"]
    ]
    pairs = zip(documents, data["chunks"], strict=True) if data["chunks"] else ()
    cut = [[_chunk(document, *row) for row in rows] for document, rows in pairs]
    return Prepared(documents, cut, [(inside, reason) for inside, reason in data["complaints"]])


def _chunk(
    document: Document, start: int, end: int, headings: list[str], context: str, parent: list[int] | None
) -> Chunk:
    span = (parent[0], parent[1]) if parent else None
    return Chunk(
        document.id, start, end, document.text[start:end], tuple(headings), context, span, title=document.title
    )
