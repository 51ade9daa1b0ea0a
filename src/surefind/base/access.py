"""Access: the groups of a caller and the filters of a search, as one value.

    Access.public()                                     documents without an access list
    Access.of("hr", "staff", where=["status=approved"]) also documents of these groups; only approved documents
    Access.owner()                                      every document: for the owner, benchmarks and training

Every search, score and passage call takes an `Access`, without a default: a forgotten `Access` raises an error instead
of returning somebody else's documents. A backend resolves it once per generation, to a mask or its own expression.

A `Caller` has a name and scopes as well: what they may do with drafts, jobs, exams and settings.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from surefind.base.disk.wildcards import Wildcards
from surefind.base.errors import ForbiddenError, UsageError

Scope = Literal["read", "write", "review", "admin"]
"""read: search and read; write: upload drafts, give feedback; review: publish drafts, run benchmarks; admin: all."""
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""In this order each scope includes those before it: nobody can review what they may not open."""
EVERYTHING = "*"
"""The name of the group that may read every document."""
PUBLIC = "public"
"""The name of the group that everybody is in: `acl: [public]` decides that everybody may read a document."""
PATH = "path"
"""The key of the filter by folders, which every document has: `path=hr/leave`."""
MAX_NAME_CHARS = 255
"""Characters of the name of a group or a person, at most."""
_FILTER = re.compile(r"([^!<>=]+)(!=|>=|<=|=)(.*)", re.DOTALL)


def checked_name(name: str, what: str = "group") -> str:
    """Returns the name of a group or a person in the form in which names are compared: Unicode's NFC, without blanks
    around it. Raises `UsageError` for a name with characters that nobody sees, which programs may cut or join."""
    plain = unicodedata.normalize("NFC", name).strip(" ") if 0 < len(name) <= MAX_NAME_CHARS else ""
    if not plain or not plain.isprintable():
        shown = f"{name[:40]!a}{'…' if len(name) > 40 else ''}"
        raise UsageError(f"The name of a {what} must have 1 to {MAX_NAME_CHARS} printable characters, not {shown}.")
    return plain


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on metadata: `status=approved`, `tags!=draft`, `effective>=2025-01-01`, `doc_type=sop,policy` (either
    of them). `path=hr/leave` is a condition on the folder of a document: there, or below it."""

    key: str
    operator: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Filter:
        """Reads a filter from its text form."""
        match = _FILTER.fullmatch(text.strip())
        if match:
            key, operator, value = match.groups()
            values = (part.strip().lower() for part in value.split(","))
            if key.strip() == PATH:
                values = (part.removesuffix("**").strip("/") for part in values)
            return cls(key.strip(), operator, tuple(values))
        raise UsageError(
            f"Cannot read the filter {text!r}. Write it like status=approved, tags!=draft or effective>=2025-01-01."
        )

    def accepts(self, value: str) -> bool:
        """Returns whether a metadata value matches the filter's values. For `!=`, a match excludes the document."""
        if self.operator in ("=", "!="):
            return value in self.values
        return _compare(value, self.operator, self.values[0])


def _compare(item: str, operator: str, value: str) -> bool:
    """Compares as numbers if both values are numbers, else as text, which is right for ISO dates."""
    try:
        left, right = float(item), float(value)
    except ValueError:
        return item >= value if operator == ">=" else item <= value
    return left >= right if operator == ">=" else left <= right


@dataclass(frozen=True)
class Access:
    """The groups of a caller and the filters of a search."""

    groups: frozenset[str]
    where: tuple[Filter, ...] = ()

    @classmethod
    def of(cls, *groups: str, where: Iterable[str] = ()) -> Access:
        """Gives access to public documents and to those of these groups, if they pass the filters in `where`."""
        return cls(frozenset(map(checked_name, groups)), tuple(Filter.parse(text) for text in where))

    @classmethod
    def public(cls, where: Iterable[str] = ()) -> Access:
        """Gives access to documents without an access list, if they pass the filters."""
        return cls.of(where=where)

    @classmethod
    def owner(cls, where: Iterable[str] = ()) -> Access:
        """Gives access to every document that passes the filters."""
        return cls.of(EVERYTHING, where=where)

    @property
    def sees_all(self) -> bool:
        """Whether access lists do not restrict this caller."""
        return EVERYTHING in self.groups

    def admits(self, clauses: Iterable[Sequence[str]]) -> bool:
        """Returns whether the caller may read a document with these access lists: each must name a group of theirs."""
        groups = self.groups | {PUBLIC}
        return self.sees_all or not any(groups.isdisjoint(clause) for clause in clauses)

    def __str__(self) -> str:
        """Describes the caller for a report: `everybody`, `hr, staff` or `the owner`."""
        named = "the owner" if self.sees_all else ", ".join(sorted(self.groups)) or "everybody"
        filters = " and ".join(
            f"{condition.key}{condition.operator}{','.join(condition.values)}" for condition in self.where
        )
        return f"{named} ({filters})" if filters else named


@dataclass(frozen=True)
class Caller:
    """Whoever searches, writes or judges: their name, what they may do (scopes) and which documents they may read
    (groups)."""

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


@dataclass(frozen=True)
class PathRule:
    """Restricts the documents below a path to some groups, whatever their format: `[[access]] path = "hr/**"`.

    `*` matches anything within one folder, `**` any folders. The rule applies in addition to the document's own access
    list: a caller must be admitted by both.
    """

    path: str
    groups: tuple[str, ...]
    default: bool = False
    """Whether the rule applies only to documents that have no list of their own and that no other rule covers."""

    @cached_property
    def _plain(self) -> str:
        return self.path.strip().removeprefix("./").strip("/")

    @cached_property
    def _wildcards(self) -> Wildcards:
        return Wildcards(self._plain)

    @cached_property
    def _head(self) -> str:
        """The text before the first wildcard. Comparing it first rules out most paths quickly."""
        return re.split(r"[*?]", self._plain, maxsplit=1)[0]

    def covers(self, path: str) -> bool:
        """Returns whether a path matches the rule, or lies in a folder that does."""
        return path.startswith(self._head) and self._wildcards.cover(path)


@dataclass(frozen=True, slots=True)
class AccessList:
    """A list of groups that restricts a document, and where it is written."""

    groups: tuple[str, ...]
    origin: str
    """`acl`, the path of a rule, or `default`."""


def access_lists(own: Sequence[str], names: Iterable[str], rules: Sequence[PathRule]) -> list[AccessList]:
    """Returns the lists of a document: its own, and one of each rule that covers one of its names; if there are none,
    that of the default. A caller must be admitted by each of them."""
    known = set(names)
    lists = [AccessList(tuple(own), "acl")] if own else []
    lists += [AccessList(r.groups, r.path) for r in rules if not r.default and any(map(r.covers, known))]
    return lists or [AccessList(rule.groups, "default") for rule in rules if rule.default]
