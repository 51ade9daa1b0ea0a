"""Makes an object from its keys and values when a key is repeated: no access list is lost.

YAML and JSON keep the last of several values with the same key. An access list in an earlier one would be gone, and the
document might be open to more people than somebody decided.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from surefind.base.access import EVERYTHING, PUBLIC, checked_name
from surefind.base.errors import SourceError, UsageError
from surefind.engine.files.access_head import is_access_key, resembles_access_key


def unique_keys(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Makes an object from its pairs. Of a repeated key the last value counts, and every access list in any of them."""
    made: dict[Any, Any] = dict(pairs)
    if len(made) == len(pairs):
        return made
    values: dict[Hashable, list[Any]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    lost = False
    for key, several in values.items():
        if len(several) > 1 and is_access_key(str(key)):
            made[key] = one_list(several)
        elif len(several) > 1 and resembles_access_key(str(key)):
            made[key] = next((value for value in several if value not in (None, [])), None)
        elif any(next(access_keys(value), None) for value in several[:-1]):
            if all(isinstance(value, Mapping) for value in several):
                made[key] = unique_keys([pair for value in several for pair in value.items()])
            else:
                lost = True
    if lost:
        made["acl"] = one_list([made.get("acl"), [EVERYTHING]])
    return made


def one_list(lists: list[Any]) -> Any:
    """Returns one access list for several: the groups that are in each. One that cannot be read stays as it is, so that
    whoever reads it finds that out."""
    try:
        return list(common(groups_of(groups_list) for groups_list in lists))
    except SourceError:
        return next(groups_list for groups_list in lists if not is_readable(groups_list))


def common(lists: Iterator[list[str]]) -> tuple[str, ...]:
    """Returns the groups that are in each of several access lists, or the owner alone if there are none. An empty list
    decides nothing, and a list with `public` excludes nobody."""
    decided = [set(groups_list) for groups_list in lists if groups_list]
    limits = [groups_list for groups_list in decided if PUBLIC not in groups_list]
    if not limits:
        return tuple(sorted(set().union(*decided)))
    return tuple(sorted(set.intersection(*limits))) or (EVERYTHING,)


def groups_of(acl: Any) -> list[str]:
    """Returns the groups of an access list: `compliance`, or `[compliance, audit]`. Raises `SourceError` if it is not a
    list of names."""
    if acl is None:
        return []
    groups = acl if isinstance(acl, list) else [acl]
    if not all(isinstance(group, str | int) for group in groups):
        raise SourceError(f"has an acl that is not a list of group names ({acl!r}); write `acl: [group, …]`")
    try:
        return [checked_name(str(group).strip()) for group in groups]
    except UsageError:
        raise SourceError(f"has an acl with a name that no group can have ({acl!a}); write `acl: [group, …]`") from None


def is_readable(acl: Any) -> bool:
    """Returns whether this is an access list that `groups_of` can read."""
    try:
        groups_of(acl)
    except SourceError:
        return False
    return True


def access_keys(value: Any) -> Iterator[str]:
    """Yields the keys, at any depth, that look like access lists and are not empty."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if resembles_access_key(str(key)) and item not in (None, []):
                yield str(key)
            yield from access_keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from access_keys(item)
