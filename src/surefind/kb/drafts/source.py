"""A document as text that a person can read, compare and edit: its metadata and access list in front, then its text."""

from __future__ import annotations

import json
from typing import Any

from surefind.base.types import Document

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
