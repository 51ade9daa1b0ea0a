"""Reads YAML front matter: the block between two `---` lines at the top of a file."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

from surefind.errors import SourceError

_BLOCK = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Splits a text into the metadata of its front matter and the rest. Without front matter the metadata is empty.

    Front matter that cannot be parsed is an error and never "no metadata", because it may restrict access.
    """
    match = _BLOCK.match(text)
    if not match:
        return {}, text
    import yaml

    try:
        loaded = yaml.load(match.group(1), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 2}" if mark else ""
        problem = getattr(error, "problem", None) or "it is not YAML"
        raise SourceError(f"has broken front matter{where} ({problem}); fix the YAML or remove the block") from None
    except (ValueError, RecursionError) as error:
        raise SourceError(f"has broken front matter ({error}); fix the YAML or remove the block") from None
    if loaded is None:
        return {}, text[match.end() :]
    if not isinstance(loaded, Mapping):
        return {}, text  # plain text between two horizontal rules, not front matter
    try:
        return {str(key): _plain(value) for key, value in loaded.items()}, text[match.end() :]
    except RecursionError:
        raise SourceError("has broken front matter (it contains itself); fix the YAML or remove the block") from None


def _plain(value: Any) -> Any:
    """Converts a YAML value to one that JSON can hold: dates become text."""
    if isinstance(value, dt.date | dt.datetime | dt.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
