"""Who asks, and for what: the groups of a caller and the filters of a search, as one value.

    Access.public()                                     documents without an access list
    Access.of("hr", "staff", where=["status=approved"]) those of these groups too, of which only approved ones
    Access.owner()                                      every document: for the owner, benchmarks and training

Every search, score and passage call takes an `Access`, and none has a default: who forgets it gets an error, not
somebody else's documents. A backend resolves it once per generation, to a mask or to an expression of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from surefind.errors import UsageError

EVERYTHING = "*"
"""The group that may read every document."""
_FILTER = re.compile(r"([^!<>=]+)(!=|>=|<=|=)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Filter:
    """`status=approved`, `tags!=draft`, `effective>=2025-01-01`, `doc_type=sop,policy` (any of them)."""

    key: str
    operator: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Filter:
        match = _FILTER.fullmatch(text.strip())
        if match:
            key, operator, value = match.groups()
            return cls(key.strip(), operator, tuple(part.strip().lower() for part in value.split(",")))
        raise UsageError(
            f"Cannot read the filter {text!r}. Write it like status=approved, tags!=draft or effective>=2025-01-01."
        )

    def accepts(self, value: str) -> bool:
        """Whether one value of a document fits; of `!=`, whether it is one of those that must not be there."""
        if self.operator in ("=", "!="):
            return value in self.values
        return _compare(value, self.operator, self.values[0])


def _compare(item: str, operator: str, value: str) -> bool:
    """As numbers if both are, else as text, which is right for ISO dates."""
    try:
        left, right = float(item), float(value)
    except ValueError:
        return item >= value if operator == ">=" else item <= value
    return left >= right if operator == ">=" else left <= right


@dataclass(frozen=True)
class Access:
    """The groups of a caller, and the filters of a search."""

    groups: frozenset[str]
    where: tuple[Filter, ...] = ()

    @classmethod
    def of(cls, *groups: str, where: Iterable[str] = ()) -> Access:
        """Documents that everybody or one of these groups may read, and that pass every filter of `where`."""
        return cls(frozenset(groups), tuple(Filter.parse(text) for text in where))

    @classmethod
    def public(cls, where: Iterable[str] = ()) -> Access:
        """Documents that everybody may read."""
        return cls.of(where=where)

    @classmethod
    def owner(cls, where: Iterable[str] = ()) -> Access:
        """Every document."""
        return cls.of(EVERYTHING, where=where)

    @property
    def sees_all(self) -> bool:
        """Whether the caller may read every document."""
        return EVERYTHING in self.groups

    def admits(self, clauses: Iterable[Sequence[str]]) -> bool:
        """Whether a document is open to these groups: they need a member in each of its access lists."""
        return self.sees_all or all(self.groups & set(clause) for clause in clauses)


@dataclass(frozen=True)
class PathRule:
    """Documents below a path are for these groups, whatever their format: `[[access]] path = "hr/**"`.

    `*` stands for anything within one folder, `**` for any folders. A rule and the document's own access list both
    hold: who reads the document must be admitted by each.
    """

    path: str
    groups: tuple[str, ...]

    @cached_property
    def _plain(self) -> str:
        return self.path.strip().removeprefix("./").strip("/")

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = re.split(r"(\*\*/|\*\*|\*|\?)", self._plain)
        marks = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
        written = "".join(marks.get(part) or re.escape(part) for part in parts)
        return re.compile(f"(?:{written})(?:/.*)?", re.DOTALL)

    @cached_property
    def _head(self) -> str:
        """What stands before the first wildcard: most paths are told by it."""
        return re.split(r"[*?]", self._plain, maxsplit=1)[0]

    def covers(self, path: str) -> bool:
        """Whether a path fits, or lies in a folder that does."""
        return path.startswith(self._head) and self._pattern.fullmatch(path) is not None
