"""A caller: its name, what it may do (scopes) and which documents it may read (groups)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from surefind.base.access import EVERYTHING, SCOPES, Access, Scope, checked_name
from surefind.base.errors import ForbiddenError, SurefindError, UsageError

ANYONE = "anyone on this machine"
"""The name of all callers of an open server."""
TOKEN = "oidc:"
"""How the names of callers with a token begin. No key may have such a name: it says whose drafts and jobs these are."""


class NotAuthenticatedError(SurefindError):
    """The caller did not prove who it is."""


class UnwritableError(SurefindError):
    """What a caller needs cannot be written to `.surefind`."""

    def __init__(self, what: str, error: OSError) -> None:
        super().__init__(
            f"{what}: the server cannot write to the folder .surefind ({error.strerror}). Tell whoever runs it."
        )


@dataclass(frozen=True)
class Caller:
    name: str
    scopes: frozenset[Scope]
    groups: frozenset[str]

    def may(self, scope: Scope) -> bool:
        """Returns whether the caller has a scope, or one that includes it."""
        return any(held in self.scopes for held in SCOPES[SCOPES.index(scope) :])

    def require(self, scope: Scope) -> None:
        """Raises `ForbiddenError` if the caller lacks a scope."""
        if not self.may(scope):
            raise ForbiddenError(
                f"This needs the scope {scope!r}, and the caller has {', '.join(sorted(self.scopes))}."
            )

    def access(self, where: Iterable[str] = ()) -> Access:
        """Returns what the caller may read, with these filters."""
        return Access.of(*self.groups, where=where)


def scopes_of(names: Iterable[str]) -> frozenset[Scope]:
    """Returns scopes by name. Raises `UsageError` for an unknown one."""
    given = list(names)
    wrong = [name for name in given if name not in SCOPES]
    if wrong:
        raise UsageError(f"There is no scope {wrong[0]!r}. Choices: {', '.join(SCOPES)}.")
    return frozenset(scope for scope in SCOPES if scope in given)


def claimed_groups(names: Iterable[object]) -> frozenset[str]:
    """Returns the groups that a token names. `*` means every document here and a plain name elsewhere, so a token never
    gives it. What cannot be the name of a group is in no access list either, and is left out."""
    groups = set()
    for name in names:
        if isinstance(name, str | int) and not isinstance(name, bool):
            with contextlib.suppress(UsageError):
                groups.add(checked_name(str(name)))
    return frozenset(groups - {EVERYTHING})
