"""Reads the access list of a document: the groups that may read it.

    acl: [compliance, audit]

A list that cannot be understood is never "no list": the document would become public. It is left to the owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from surefind.base.errors import SourceError
from surefind.engine.files.access_head import IN_FRONT_MATTER, IN_RECORD, access_line, is_access_key
from surefind.engine.files.inside import owner_if_alike, owner_only
from surefind.engine.ingest._front_matter import split_front_matter
from surefind.engine.ingest._repeated import access_keys, common, groups_of

_NESTED = "metadata"
"""The field of a record whose access list counts like the record's own."""


def access_groups(*sources: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the groups that may read a document, from `acl: compliance` or `acl: [compliance, audit]`. If several
    spellings of the key, in all sources, have a list, a group must be in each of them; if none is, only the owner may
    read the document. No groups means that nobody decided."""
    return common(groups_of(acl) for metadata in sources for acl in _lists(metadata))


def with_front_matter(text: str, document: str) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    """Splits a text into metadata, body and groups. If the front matter cannot be read, or the head has a line that
    looks like an access list and was not read as one, nobody but the owner may read the document."""
    try:
        metadata, body = split_front_matter(text)
    except SourceError as error:
        why, _, advice = str(error).rpartition("; ")
        return {}, text, owner_only(document, f"it {why}", advice=advice)
    return metadata, body, _front_groups(metadata, text, document)


def with_access_only(text: str, document: str, decided: bool = False) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    """Does what `with_front_matter` does, for formats in which front matter is not usual: a block counts only if it
    contains an access list. Any other text between two rules belongs to the document. With `decided`, the document has
    a list elsewhere, and lines that only look like one are text."""
    try:
        metadata, body = split_front_matter(text)
    except SourceError:
        metadata, body = {}, text
    groups = _front_groups(metadata, text, document, decided)
    return (metadata, body, groups) if any(_lists(metadata)) and groups else ({}, text, groups)


def _front_groups(metadata: Mapping[str, Any], text: str, document: str, decided: bool = False) -> tuple[str, ...]:
    """Returns the groups of a document with this front matter: the owner alone if it or the head looks restricted."""
    try:
        groups = access_groups(metadata)
    except SourceError as error:
        line_found = access_line(text)
        line = f" at line {line_found[0]}" if line_found else ""
        return owner_only(document, f"it {str(error).rpartition('; ')[0]}{line}", advice=IN_FRONT_MATTER)
    if groups or decided:
        return groups
    groups = owner_if_alike(document, text, IN_FRONT_MATTER, read=len(list(_lists(metadata))))
    if not groups and (field := next(access_keys(metadata), "")):
        return owner_only(document, f"it has the field {field!r}", advice=IN_FRONT_MATTER)
    return groups


def record_groups(record: Mapping[str, Any], document: str, where: str = "") -> tuple[str, ...]:
    """Returns the groups of a record, from its `acl` and that of its metadata. If these cannot be read, or only a
    deeper or misspelled field looks like an access list, nobody but the owner may read the document."""
    inner = record.get(_NESTED)
    try:
        groups = access_groups(record, inner if isinstance(inner, Mapping) else {})
    except SourceError as error:
        return owner_only(document, f"it {str(error).partition(';')[0]}", where, IN_RECORD)
    wrong = "" if groups else next(access_keys(record), "")
    if wrong:
        return owner_only(document, f"it has the field {wrong!r}", where, IN_RECORD)
    return groups


def _lists(metadata: Mapping[str, Any]) -> Iterator[Any]:
    return (value for key, value in metadata.items() if is_access_key(str(key)))
