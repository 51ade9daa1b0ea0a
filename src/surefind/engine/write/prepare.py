"""Prepares a file: reads, cleans and cuts it. The result depends only on the file and the settings; no database or
service is used.

    prepare(Task("markdown", "/docs/a.md", "a.md", "markdown(tokens=250, …) + headings"), scope) -> Prepared
    prepare_cut(CutTask(document, "markdown(tokens=250, …) + headings"), scope) -> Prepared

It runs in a child process (`write.child`), under limits. The result is passed to the parent as JSON: a hostile file may
take over the child, so the parent accepts no pickled objects from it. Layouts that need a service cut later, in the
parent process, which has the services. Such a layout, and an exam, parse the document's structure again there. So the
structure of every document is parsed here first: what fails here, or takes too long, gets no further.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from surefind.base import spec
from surefind.base.errors import SourceError
from surefind.base.text.blocks import structure
from surefind.base.text.languages import with_language
from surefind.base.types import Chunk, Document, Place
from surefind.engine.files.inside import Scope, read_checked
from surefind.engine.files.opening import held
from surefind.engine.services import LocalServices
from surefind.engine.write.layout import Layout

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""Characters that the database cannot store: NUL and lone surrogates."""
_NO_JSON = ("NaN", "Infinity")
"""Numbers that Python writes into JSON, and that other programs cannot read there."""
_DEEPEST = 20
"""Levels of values within values in metadata, at most."""
_MAX_TITLE_CHARS = 1000
"""Characters of a document's title, at most."""


@dataclass(frozen=True)
class PrepareTask:
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
class CutTask:
    """A document to cut, in another layout than the one that it was read for."""

    document: Document
    layout: str

    def to_json(self) -> str:
        return json.dumps({"document": _document_data(self.document), "layout": self.layout})

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> CutTask:
        return cls(_document(*data["document"]), data["layout"])


@dataclass(frozen=True)
class Prepared:
    """The contents of a file: documents with their chunks, and the parts that could not be read."""

    documents: list[Document]
    chunks: list[list[Chunk]]
    """The chunks of each document; empty if the task named no layout."""
    complaints: list[tuple[str, str]]
    """(member of the file or "", reason) of each part that could not be read."""


def prepare(task: PrepareTask, here: Scope) -> Prepared:
    """Reads the documents of a file and cuts them."""
    reader = spec.make("read", task.reader)
    path = Path(task.path)
    documents, chunks, size, services = [], [], 0, LocalServices()
    with held(path, task.real) if task.real else contextlib.nullcontext():
        for read_document in read_checked(reader, path, task.id):
            size = _counted(size, len(read_document.text), here)
            document = storable(with_language(read_document))
            documents.append(document)
            structure(document.text, document.format)
            if task.layout:
                chunks.append(_layout(task.layout).cut(document, services))
                size = _counted(size, sum(map(_beside, chunks[-1])), here)
    return Prepared(documents, chunks, here.complaints)


def prepare_cut(task: CutTask, here: Scope) -> Prepared:
    """Cuts a document. The result has no documents, only the chunks of this one."""
    chunks = _layout(task.layout).cut(task.document, LocalServices())
    _counted(len(task.document.text), sum(map(_beside, chunks)), here)
    return Prepared([], [chunks], [])


def _beside(chunk: Chunk) -> int:
    """The characters that a chunk has besides its text."""
    return len(chunk.context) + sum(map(len, chunk.headings))


def _counted(size: int, more: int, here: Scope) -> int:
    if size + more > here.limits.unpacked_mb * 1e6:
        raise SourceError(f"gives more than {here.limits.unpacked_mb:g} MB of text (max_unpacked_mb)")
    return size + more


@lru_cache(maxsize=4)
def _layout(text: str) -> Layout:
    return Layout.read(text)


def storable(document: Document) -> Document:
    """Replaces each character that the database cannot store by a blank, so that offsets stay the same; writes numbers
    that JSON does not have as text; and cuts a very long title: every chunk repeats it."""
    facts = json.dumps(dict(document.metadata), ensure_ascii=False)
    if facts.count("[") + facts.count("{") > _DEEPEST and _depth(document.metadata) > _DEEPEST:
        raise SourceError(f"has metadata that nests values more than {_DEEPEST} deep (document {document.id})")
    if any(word in facts for word in _NO_JSON):
        document = replace(document, metadata=json.loads(facts, parse_constant=str))
        facts = json.dumps(dict(document.metadata), ensure_ascii=False)
    if len(document.title) > _MAX_TITLE_CHARS:
        document = replace(document, title=document.title[:_MAX_TITLE_CHARS])
    if not any(map(_UNSTORABLE.search, (document.text, document.title, document.id, facts))):
        return document
    return replace(
        document,
        id=_UNSTORABLE.sub(" ", document.id),
        text=_UNSTORABLE.sub(" ", document.text),
        title=_UNSTORABLE.sub(" ", document.title),
        metadata=json.loads(_UNSTORABLE.sub(" ", facts)),
    )


def _depth(value: Any) -> int:
    """How many levels of lists and mappings a value has. It needs no recursion, which has a limit of its own."""
    level, depth = [value], -1
    while level:
        depth += 1
        nested = [item for item in level if isinstance(item, dict | list)]
        level = [
            item for container in nested for item in (container.values() if isinstance(container, dict) else container)
        ]
    return depth


# ---------------------------------------------------------------- the JSON form


def to_data(prepared: Prepared) -> dict[str, Any]:
    """Returns the JSON form of a result."""
    return {
        "documents": list(map(_document_data, prepared.documents)),
        "chunks": [
            [[c.start, c.end, c.headings, c.context, c.parent, c.language] for c in cut] for cut in prepared.chunks
        ],
        "complaints": prepared.complaints,
    }


def from_data(data: dict[str, Any]) -> Prepared:
    """Reads a result from its JSON form."""
    documents = [_document(*row) for row in data["documents"]]
    pairs = zip(documents, data["chunks"], strict=True) if data["chunks"] else ()
    cut = [chunks_from(document, rows) for document, rows in pairs]
    return Prepared(documents, cut, [(inside, reason) for inside, reason in data["complaints"]])


def chunks_from(document: Document, rows: Iterable[Sequence[Any]]) -> list[Chunk]:
    """Reads the chunks of a document from their JSON form."""
    return [_chunk(document, *row) for row in rows]


def _document_data(document: Document) -> list[Any]:
    return [
        document.id, document.text, document.title, document.format, dict(document.metadata), document.acl,
        document.places,
    ]  # fmt: skip


def _document(
    document_id: str,
    text: str,
    title: str,
    markup: Literal["markdown", "text"],
    metadata: dict[str, Any],
    acl: list[str],
    places: list[list[Any]],
) -> Document:
    return Document(document_id, text, title, markup, metadata, tuple(acl), tuple(Place(*place) for place in places))


def _chunk(
    document: Document,
    start: int,
    end: int,
    headings: list[str],
    context: str,
    parent: list[int] | None,
    language: str,
) -> Chunk:
    span = (parent[0], parent[1]) if parent else None
    text = document.text[start:end]
    return Chunk(document.id, start, end, text, tuple(headings), context, span, document.title, language)
