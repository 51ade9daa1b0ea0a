"""The table [desk] of surefind.toml."""

from __future__ import annotations

import re
from dataclasses import dataclass

from surefind.base.errors import UsageError
from surefind.engine.files.formats import CODE_LANGUAGES

_MAX_APPROVALS = 20
FORMATS = (".md", ".rst", ".txt", ".html", ".pdf", ".docx", ".pptx", ".xlsx")
"""The formats in which published drafts are written to git, if the settings name no others."""


@dataclass(frozen=True)
class DeskSettings:
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
