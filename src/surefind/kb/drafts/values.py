"""Values: drafts, their revisions, comments and events.

Nobody approves what they wrote, however their name is spelled.

The table [drafts] of surefind.toml.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from surefind.base.errors import UsageError
from surefind.engine.files.readers import CODE_LANGUAGES

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
    """Its text with its metadata, as `publishing.shown` writes it."""


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
    """The text with the metadata that it will have, as `publishing.shown` writes it."""
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


_GAPS = re.compile(r"[\s_.-]+")


def same_person(one: str, other: str) -> bool:
    """Returns whether two names mean the same person: case, accents, width, blanks and hyphens do not count. To take
    two people for one costs an approval by a third; to take one for two lets people approve their own drafts."""
    return _plain(one) == _plain(other)


def _plain(name: str) -> str:
    letters = unicodedata.normalize("NFKD", name).casefold()
    shown = "".join(letter for letter in letters if unicodedata.category(letter) not in ("Mn", "Cf", "Cc"))
    return _GAPS.sub(" ", shown).strip()


_MAX_APPROVALS = 20
FORMATS = (".md", ".rst", ".txt", ".html", ".pdf", ".docx", ".pptx", ".xlsx")
"""The formats in which published drafts are written to git, if the settings name no others."""


@dataclass(frozen=True)
class DraftSettings:
    approvals: int = 1
    """How many people must approve a draft before it is published through the server."""
    git: str = ""
    """A git repository that gets a commit for each published draft; empty for none."""
    formats: tuple[str, ...] = FORMATS
    """The endings of the files that are written there."""

    def __post_init__(self) -> None:
        if not 0 <= self.approvals <= _MAX_APPROVALS:
            raise UsageError(f"approvals must be from 0 to {_MAX_APPROVALS}, not {self.approvals}.")
        for ending in self.formats:
            if not re.fullmatch(r"\.[a-z0-9]{1,20}", ending) or ending in CODE_LANGUAGES:
                raise UsageError(f"formats must be endings of documents, such as {' '.join(FORMATS)}, not {ending!r}.")
