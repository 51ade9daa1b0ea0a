"""Takes in the file of a draft: checks its names, reads it under the limits of a sync, and completes it by what its
document has.

A document as text that a person can read, compare and edit: its metadata and access list in front, then its text.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from surefind.base.errors import SourceError
from surefind.base.names import document_name, look_alikes
from surefind.base.types import Document
from surefind.engine.files.git import is_document_path
from surefind.engine.files.inside import LOOKS_RESTRICTED
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.versions import content_hash
from surefind.engine.write.reading import FilePreparer
from surefind.kb.drafts.values import Base

_FENCE = "---"
_EDITABLE = (".md", ".markdown", ".mdown", ".mkd", ".mdx", ".txt")
"""The endings of files that are edited as text."""
_MAX_NAME_CHARS = 55
"""Characters of a made file name: with four bytes each, file systems still store it."""


def shown(document: Document) -> str:
    """Returns a document as Markdown with front matter. The Markdown reader makes the same document of it."""
    facts: dict[str, Any] = dict(document.metadata)
    if document.acl:
        facts["acl"] = list(document.acl)
    if not facts and not document.text.lstrip("\ufeff").startswith(_FENCE):
        return document.text
    lines = [f"{_key(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in facts.items()]
    return "\n".join([_FENCE, *lines, _FENCE, document.text])


def _key(key: str) -> str:
    return key if key.isidentifier() and key.isascii() else json.dumps(key, ensure_ascii=False)


def is_text(name: str) -> bool:
    """Returns whether a file of this name is edited as text."""
    return name.lower().endswith(_EDITABLE)


def text_name(document: str) -> str:
    """Returns the name of a text file that stands for a document, whatever its format was."""
    name = document.rpartition("/")[2].replace("\\", "_").lstrip(".")[-_MAX_NAME_CHARS:] or "document"
    return name if name.lower().endswith(_EDITABLE[:-1]) else f"{name}.md"


def decoded(data: bytes) -> str:
    """Returns the bytes of a text file as text, with plain line ends."""
    return data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\r", "\n")


_NAME = re.compile(r"[^\x00-\x1f\x7f/\\]{1,200}")
_MAX_DOCUMENT_CHARS = 500
_MAX_NAME_BYTES = 240
"""Bytes of a file's name, at most: file systems store 255."""


def check_name(name: str) -> None:
    """Raises `SourceError` if this is not a plain file name."""
    if not _NAME.fullmatch(name) or name.startswith(".") or not _storable(name) or len(name.encode()) > _MAX_NAME_BYTES:
        raise SourceError("The name of the file must be a plain file name, such as fees.md.")


def check_document(document: str) -> None:
    """Raises `SourceError` if a document cannot have this name: it is a path in its one spelling, at which the document
    may be written."""
    if not is_document_path(document_name(document)) or len(document) > _MAX_DOCUMENT_CHARS:
        raise SourceError(
            f"A document cannot be called {document[:100]!a}. Name it as in hits, such as policies/fees.md: "
            "without hidden files and folders, .. and surefind.toml."
        )


def check_new(catalogue: Catalogue, document: str, may_read: Callable[[int], bool] = lambda version: False) -> None:
    """Raises `SourceError` if a document that does not exist cannot have this name, or would look like another one in
    lists and citations. The other one is named only if the caller `may_read` its version."""
    files = catalogue.named()
    if any(file.document == document for file in files):
        return
    check_document(document)
    forms = look_alikes(document)
    alike = [file for file in files if not forms.isdisjoint(look_alikes(file.document))]
    if alike:
        named = next((f", {file.document!r}" for file in alike if may_read(file.version)), "")
        raise SourceError(
            f"{document!a} looks like the name of another document{named}. To change that one, write its name as in "
            "hits; else choose a name with other letters."
        )


def _storable(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def read(reading: FilePreparer, name: str, data: bytes, document: str) -> Document:
    """Reads the one document of a file, in a child process and under limits. Raises `SourceError` if it cannot be read,
    or has several documents."""
    reader = reading.find(name)
    if reader is None:
        known = ", ".join(reading.readers.suffixes())
        raise SourceError(f"No reader can read the file type of {name}. Known types: {known}.")
    limit = reading.limits.file_mb
    if len(data) > limit * 1e6:
        raise SourceError(f"{name} is larger than {limit:g} MB (max_file_mb).")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(data)
        try:
            prepared = reading.read(reader, file, document)
        except SourceError as error:
            raise SourceError(f"{name} {str(error).replace(str(file), name)}.") from None
    documents = prepared.documents
    if alike := next((reason for _, reason in prepared.complaints if reason.startswith(LOOKS_RESTRICTED)), ""):
        raise SourceError(f"{name} {alike}.")
    if len(documents) != 1:
        raise SourceError(f"{name} holds {len(documents)} documents. A draft must be one document.")
    return replace(documents[0], id=document)


def base_of(catalogue: Catalogue, document: str) -> tuple[Base, Document | None]:
    """Returns the published version of a document, and the document itself; an empty base if it is new."""
    version = catalogue.versions.find(document, catalogue.snapshot_id())
    if version is None:
        return Base(), None
    found = catalogue.versions.document(version)
    return base_from(version, found), found


def base_from(version: int, document: Document) -> Base:
    """Returns a version as the base of a draft."""
    return Base(version, content_hash(document), shown(document))


def completed(made: Document, before: Document | None, keeps: bool, acl: tuple[str, ...] = ()) -> Document:
    """Gives a draft without an access list that of its document. A file that was made elsewhere often has none, and
    would open a restricted document; `acl: [public]` opens it on purpose. With `keeps`, the draft has the metadata of
    its document, too. With `acl`, which was decided before, it has that list."""
    if before is not None and keeps:
        made = replace(made, metadata=before.metadata, acl=before.acl)
    elif before is not None and not made.acl:
        made = replace(made, acl=before.acl)
    return replace(made, acl=acl) if acl else made
