"""Preparing a file: read, clean, cut. A function of the file and the settings alone, without a database or a service.

    prepare(Task("markdown", "/docs/a.md", "a.md", "markdown(tokens=250, …) + headings")) -> Prepared

It runs in a process of its own (`write.child`), under limits. What it gives can be pickled, and has a JSON form,
because nothing that a hostile file makes of that process is trusted with objects. Stages that ask a service cut
afterwards, in the process that has the services.
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
from surefind.ingest._inside import Scope
from surefind.ingest._opening import held
from surefind.services import Services
from surefind.types import Chunk, Document, Place
from surefind.write.layout import Layout

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True)
class Task:
    reader: str
    path: str
    id: str
    layout: str = ""
    """How to cut; empty: not at all."""
    real: str = ""
    """Where the path led when it was found; empty: wherever it leads."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Prepared:
    """What came out of a file: documents with their chunks, and what could not be read of it."""

    documents: list[Document]
    chunks: list[list[Chunk]]
    """Of each document; empty where the task named no layout."""
    complaints: list[tuple[str, str]]
    """(member or nothing, reason)"""


def prepare(task: Task, here: Scope) -> Prepared:
    reader = spec.make("read", task.reader)
    path = Path(task.path)
    documents, chunks, size = [], [], 0
    with held(path, task.real) if task.real else contextlib.nullcontext():
        for found in reader.read(path, task.id):
            size += len(found.text)
            if size > here.limits.unpacked_mb * 1e6:
                raise SourceError(f"gives more than {here.limits.unpacked_mb:g} MB of text (max_unpacked_mb)")
            document = storable(found)
            documents.append(document)
            if task.layout:
                chunks.append(_layout(task.layout).cut(document, Services()))
    return Prepared(documents, chunks, here.complaints)


@lru_cache(maxsize=4)
def _layout(text: str) -> Layout:
    return Layout.read(text)


def storable(document: Document) -> Document:
    """Characters that a database cannot hold give way to a blank, one for one, so that places stay."""
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
    return {
        "documents": [[d.id, d.text, d.title, d.format, dict(d.metadata), d.acl, d.places] for d in prepared.documents],
        "chunks": [[[c.start, c.end, c.headings, c.context, c.parent] for c in cut] for cut in prepared.chunks],
        "complaints": prepared.complaints,
    }


def from_data(data: dict[str, Any]) -> Prepared:
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
