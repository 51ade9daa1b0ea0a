"""Reads a TOML text, and finds the line of a setting in it and the setting that a message is about."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from surefind.base.errors import ConfigError


def read_toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also a number with thousands of digits
        raise ConfigError(f"{where} is not valid TOML: {error}.") from None


def line_of(text: str, table: str, key: str, nth: int = 0) -> int:
    """Returns the line number of `key` in the nth `[table]`, else of the table itself, else 1."""
    here, found, seen = "", 1, -1
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\[?([^\]]+)\]", line)
        if header:
            here = header.group(1).strip().replace('"', "")
            seen += here == table
            found = number if here == table and seen == nth else found
            continue
        name = line.partition("=")[0].strip().strip('"')
        if name and ".".join(filter(None, (here, name))) == table:  # an inline table
            return number
        if key and here == table and name == key and seen in (nth, -1):
            return number
    return found


def mentioned_key(content: dict[str, Any], message: str) -> str:
    """Finds the key of a table whose value the message mentions."""
    for key, value in content.items():
        texts = value if isinstance(value, list) else [value]
        if any(isinstance(text, str) and text.partition("(")[0].strip() in message for text in texts):
            return key
    return ""
