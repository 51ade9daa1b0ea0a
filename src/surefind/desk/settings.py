"""The table [desk] of surefind.toml."""

from __future__ import annotations

from dataclasses import dataclass

from surefind.errors import UsageError

_MAX_APPROVALS = 20


@dataclass(frozen=True)
class DeskSettings:
    approvals: int = 1
    """How many people must approve a draft before it is published through the server."""
    git: str = ""
    """A git repository that gets a commit for each published draft; empty for none."""

    def __post_init__(self) -> None:
        if not 0 <= self.approvals <= _MAX_APPROVALS:
            raise UsageError(f"approvals must be from 0 to {_MAX_APPROVALS}, not {self.approvals}.")
