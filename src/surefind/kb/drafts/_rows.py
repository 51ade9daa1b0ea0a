"""The rows of the desk. Their fields are the columns of its tables, in the order in which checksums take them."""

from __future__ import annotations

from typing import NamedTuple

from surefind.kb.drafts.values import DraftState


class DraftRow(NamedTuple):
    """A row of `drafts`."""

    number: int
    document: str
    author: str
    state: DraftState
    revision: int
    keeps: int
    base: int | None
    base_content: str
    base_text: str
    version: int | None
    generation: int | None
    created: str
    changed: str


class RevisionRow(NamedTuple):
    """A row of `revisions`."""

    draft: int
    number: int
    name: str
    author: str
    created: str
    data: str
    text: str
    title: str
    acl: str
    length: int
