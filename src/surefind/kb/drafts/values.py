"""What the desk keeps, as values: drafts, their revisions, comments and events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DraftState = Literal["draft", "in review", "approved", "published", "discarded"]
OPEN: tuple[DraftState, ...] = ("draft", "in review", "approved")
"""The states of drafts that wait to be published."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft of a document, as lists show it. It has the title, the name and the length of its newest revision."""

    number: int
    document: str
    title: str
    state: DraftState
    author: str
    """Who made the draft."""
    revision: int
    """The number of the newest revision; every save makes one."""
    name: str
    """The name of the file; its ending says what it is."""
    length: int
    """The number of characters of its text."""
    approvals: tuple[str, ...]
    """Who approved the newest revision."""
    created: str
    changed: str
    generation: int | None = None
    """The generation that published it."""


@dataclass(frozen=True, slots=True)
class Base:
    """The published version that a draft was made from."""

    version: int | None = None
    """None if the document is new."""
    content: str = ""
    """The hash of its content; empty if the document is new."""
    text: str = ""
    """Its text with its metadata, as `desk.source.shown` writes it."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One saved state of a draft."""

    draft: int
    number: int
    name: str
    author: str
    created: str
    data: bytes
    """The file as it was saved."""
    text: str
    """The text with the metadata that it will have, as `desk.source.shown` writes it."""
    title: str
    acl: tuple[str, ...]
    """Who may read it: its own access list, or that of its document."""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a line of a revision."""

    number: int
    draft: int
    revision: int
    line: int
    """The line of the revision's text, from 1; 0 for a comment on the whole draft."""
    author: str
    text: str
    created: str
    reply_to: int | None = None
    resolved_by: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a draft: who did what, and when."""

    at: str
    who: str
    what: str
    revision: int
