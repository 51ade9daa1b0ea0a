"""Reads the access list of a document: the groups that may read it.

    acl: [compliance, audit]

A list that cannot be understood is an error, never "no list": the document would become public.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from surefind.access import checked_name
from surefind.errors import SourceError, UsageError
from surefind.files.access_head import check_head, is_access_key, resembles_access_key
from surefind.ingest._front_matter import split_front_matter

_NESTED = "metadata"
"""The field of a record whose access list counts like the record's own."""


def access_groups(*sources: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the groups that may read a document, from `acl: compliance` or `acl: [compliance, audit]`. The lists of
    all spellings of the key, in all sources, are joined. No groups means that nobody decided."""
    found = [acl for metadata in sources for acl in _lists(metadata)]
    return tuple(sorted({group for acl in found for group in _groups(acl)}))


def with_front_matter(text: str) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    """Splits a text into metadata, body and groups. Raises `SourceError` if the head looks like an access list that was
    not read."""
    metadata, body = split_front_matter(text)
    groups = access_groups(metadata)
    if not groups:
        check_head(text, read=len(list(_lists(metadata))))
    return metadata, body, groups


def with_access_only(text: str) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    """Does what `with_front_matter` does, for formats in which front matter is not usual: a block counts only if it
    contains an access list. Any other text between two rules belongs to the document."""
    try:
        metadata, body = split_front_matter(text)
    except SourceError:
        metadata, body = {}, text
    groups = access_groups(metadata)
    if groups:
        return metadata, body, groups
    check_head(text, read=len(list(_lists(metadata))))
    return {}, text, ()


def record_groups(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the groups of a record, from its `acl` and that of its metadata. Raises `SourceError` if only a deeper or
    misspelled field looks like an access list."""
    inner = record.get(_NESTED)
    groups = access_groups(record, inner if isinstance(inner, Mapping) else {})
    wrong = None if groups else next(_unread(record), None)
    if wrong is not None:
        raise SourceError(
            f"has a field {wrong!r} that looks like an access list; write `acl: [group, …]` in its record"
        )
    return groups


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Makes an object from its JSON pairs. Raises `SourceError` if it has two access lists of the same name, of which
    JSON would keep the last."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs if is_access_key(key)]
        if len(keys) > len(set(keys)):
            raise SourceError(f"has the field {keys[0]!r} twice in one object; keep one")
    return made


def _lists(metadata: Mapping[str, Any]) -> Iterator[Any]:
    return (value for key, value in metadata.items() if is_access_key(str(key)))


def _groups(acl: Any) -> list[str]:
    if acl is None:
        return []
    groups = acl if isinstance(acl, list) else [acl]
    if not all(isinstance(group, str | int) for group in groups):
        raise SourceError(f"has an acl that is not a list of group names ({acl!r}); write `acl: [group, …]`")
    try:
        return [checked_name(str(group).strip()) for group in groups]
    except UsageError:
        raise SourceError(f"has an acl with a name that no group can have ({acl!a}); write `acl: [group, …]`") from None


def _unread(value: Any) -> Iterator[str]:
    """Yields the keys, at any depth, that look like access lists and are not empty."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if resembles_access_key(str(key)) and item not in (None, []):
                yield str(key)
            yield from _unread(item)
    elif isinstance(value, list):
        for item in value:
            yield from _unread(item)
