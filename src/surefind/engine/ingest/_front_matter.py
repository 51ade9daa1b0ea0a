"""Reads YAML front matter: the block between two `---` lines at the top of a file."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from typing import Any

from surefind.base.errors import SourceError
from surefind.engine.ingest._repeated import unique_keys

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
