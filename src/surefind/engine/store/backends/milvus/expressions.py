"""Turns an `Access` into an expression of Milvus, which the server applies before it ranks.

An expression has only numbers in it: hashes, made here and in the rows alike (`rows`). A row without the fields that
an expression asks for does not match, so a mistake hides documents and does not show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from surefind.base.access import PATH, PUBLIC, Access, Filter, PathRule
from surefind.engine.store.backends.milvus.rows import NO_LIST, folders, group, place, tag
from surefind.engine.store.table import ChunkTable

NOTHING = "version < 0"
"""An expression that no row matches."""
_PROBES = ("\0", "\0" * 40)
"""Names that no file has. A pattern that matches a short and a long one of them matches every name."""


class Expressions:
    """Makes the expressions of one set of documents."""

    def __init__(self, table: ChunkTable, rules: Sequence[PathRule]) -> None:
        self._table = table
        self._rules = [rule for rule in rules if not rule.default]
        self._default = [rule.groups for rule in rules if rule.default]

    def of(self, access: Access) -> str:
        """Returns the expression for the documents that the caller may read and the filters accept; empty if there is
        nothing to exclude. A filter by a key that no document has must be refused before."""
        groups = [] if access.sees_all else self._readable(access)
        return both(*groups, *(self._accepted(condition) for condition in access.where))

    def _readable(self, access: Access) -> list[str]:
        """The document's own list must name a group of the caller, and so must every rule that covers it, or the
        default if there is neither."""
        groups = sorted(group(name) for name in access.groups | {PUBLIC})
        closed = [place for rule in self._rules if not access.admits([rule.groups]) for place in self._covered[rule]]
        clauses = [any_of("acl", groups)]
        if closed:
            clauses.append(f"not ({any_of('under', closed)})")
        if any(not access.admits([one]) for one in self._default):
            ruled = [place for rule in self._rules for place in self._covered[rule]]
            own_list = f"not ({any_of('acl', [NO_LIST])})"
            clauses.append(f"({own_list} or {any_of('under', ruled)})" if ruled else own_list)
        return clauses

    @cached_property
    def _covered(self) -> dict[PathRule, list[int]]:
        """The hashes of the folders and files that each rule covers."""
        names = dict.fromkeys((*self._table.paths, *self._table.names))
        return {
            rule: sorted({place(_outermost(rule, name)) for name in names if rule.covers(name)}) for rule in self._rules
        }

    def _accepted(self, condition: Filter) -> str:
        accepted = [value for value in self._table.columns[condition.key].values if condition.accepts(value.lower())]
        if condition.key == PATH:
            field, hashes = "under", [place(f"{folder}/") for folder in accepted]
        else:
            field, hashes = "tags", [tag(condition.key, value.lower()) for value in accepted]
        if condition.operator == "!=":
            return f"not ({any_of(field, hashes)})" if hashes else ""
        return any_of(field, hashes)


def _outermost(rule: PathRule, name: str) -> str:
    """Returns the outermost folder of a name that a rule covers with everything in it, or the name itself."""
    whole = (folder for folder in folders(name) if all(rule.covers(folder + probe) for probe in _PROBES))
    return next(whole, name)


def any_of(field: str, values: Iterable[int]) -> str:
    """Returns the expression for rows whose array has one of these values."""
    listed = list(values)
    return f"array_contains_any({field}, {listed})" if listed else NOTHING


def both(*parts: str) -> str:
    """Joins expressions that must all match; empty ones match everything."""
    return " and ".join(part for part in parts if part)
