"""Reads the access list of a document: the groups that may read it.

    acl: [compliance, audit]

A list that cannot be understood is never "no list": the document would become public. It is left to the owner.

Reads YAML front matter: the block between two `---` lines at the top of a file.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from surefind.base.access import EVERYTHING
from surefind.base.errors import SourceError
from surefind.engine.files.inside import (
    IN_FRONT_MATTER,
    IN_RECORD,
    access_line,
    is_access_key,
    owner_if_alike,
    owner_only,
)
from surefind.engine.ingest._decode import access_keys, common, groups_of, unique_keys

_MAX_CHARS = 100_000
"""Characters of front matter, at most, with everything that aliases repeat."""
_DEEPEST = 20
"""Levels of values within values, at most."""
_BINARY = "tag:yaml.org,2002:binary"
_BLOCK = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Splits a text into the metadata of its front matter and the rest. Without front matter the metadata is empty.

    Front matter that cannot be parsed is an error and never "no metadata", because it may restrict access.
    """
    match = _BLOCK.match(text)
    if not match:
        return {}, text
    import yaml

    loader = _loader()
    try:
        top = _checked(yaml.parse(match[1], Loader=loader), len(match[1]))
        if top is not None and not isinstance(top, yaml.MappingStartEvent):
            return {}, text  # plain text between two horizontal rules, not front matter
        loaded = yaml.load(match[1], Loader=loader) if top else {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 2}" if mark else ""
        raise _broken(getattr(error, "problem", None) or "it is not YAML", where) from None
    except ValueError as error:  # a date that does not exist, a number of too many digits
        raise _broken(error) from None
    if not isinstance(loaded, Mapping):  # a mapping with a tag, such as !!set
        raise _broken("it is not a mapping")
    return {str(key): _plain(value) for key, value in loaded.items()}, text[match.end() :]


@cache
def _loader() -> Any:
    """Returns the loader of YAML that loses no access list of a repeated key. Parsing is that of the fast one."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            if not isinstance(node, yaml.MappingNode):
                return dict(super().construct_mapping(node, deep=deep))
            self.flatten_mapping(node)
            keys = [_as_text(self.construct_object(key, deep=True)) for key, _ in node.value]
            plain = not any(key.tag == _BINARY for key, _ in node.value)
            if not all(isinstance(key, Hashable) for key in keys) or (plain and len(set(keys)) == len(keys)):
                return dict(super().construct_mapping(node, deep=deep))
            values = [self.construct_object(value, deep=True) for _, value in node.value]
            return unique_keys(list(zip(keys, values, strict=True)))

    return Loader


def _checked(events: Iterable[Any], length: int) -> Any:
    """Returns the event of a YAML text's first value; None if it has no value. Raises `SourceError` if loading it would
    cost too much. The events cost little: they repeat nothing and do not nest."""
    import yaml

    top: Any = None
    size = 0
    sizes: dict[str | None, int] = {}
    """The size of each anchored value, with everything that its aliases repeat."""
    open_values: list[tuple[str | None, int]] = []
    for event in events:
        if isinstance(event, yaml.NodeEvent):
            top = top or event
        if isinstance(event, yaml.CollectionStartEvent):
            if length > _MAX_CHARS and isinstance(top, yaml.MappingStartEvent):
                raise _broken(f"it is longer than {_MAX_CHARS:,} characters")
            open_values.append((event.anchor, size))
            size += 1
            if len(open_values) > _DEEPEST:
                raise _broken(f"it nests values more than {_DEEPEST} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_values.pop()
            sizes[anchor] = size - before
        elif isinstance(event, yaml.ScalarEvent):
            sizes[event.anchor] = 1 + len(event.value)
            size += 1 + len(event.value)
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_values):
                raise _broken("it contains itself")
            size += sizes.get(event.anchor, 0)  # an alias of nothing is an error when it is loaded
            if size > _MAX_CHARS:
                raise _broken(f"it repeats values by aliases until they are longer than {_MAX_CHARS:,} characters")
    return top


def _broken(reason: object, where: str = "") -> SourceError:
    """Returns the error of a block. Where YAML names no line, it is the line at which the block begins."""
    where = where or " at line 1"
    return SourceError(f"has broken front matter{where} ({reason}); fix the YAML or remove the block")


def _as_text(value: Any) -> Any:
    """Returns what `!!binary` gives as text: it may be the key or a group of an access list."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _plain(value: Any) -> Any:
    """Converts a YAML value to one that JSON can hold: dates become text."""
    value = _as_text(value)
    if isinstance(value, dt.date | dt.datetime | dt.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):  # of !!pairs and !!omap
        return {str(_as_text(key)): _plain(item) for key, item in [value]}
    if isinstance(value, list | set):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


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
        place = access_line(text)
        line = f" at line {place[0]}" if place else ""
        return owner_only(document, f"it {str(error).rpartition('; ')[0]}{line}", advice=IN_FRONT_MATTER)
    decided = decided or bool(groups)
    if not decided:
        groups = owner_if_alike(document, text, IN_FRONT_MATTER, read=len(list(_lists(metadata))))
    if groups != (EVERYTHING,) and (field := next(access_keys(metadata, spelled=not decided), "")):
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
    wrong = next(access_keys(record, spelled=not groups), "")
    return owner_only(document, f"it has the field {wrong!r}", where, IN_RECORD) if wrong else groups


def _lists(metadata: Mapping[str, Any]) -> Iterator[Any]:
    return (value for key, value in metadata.items() if is_access_key(str(key)))
