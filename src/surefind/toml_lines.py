"""Finds the line of a setting in a TOML text, for messages."""

from __future__ import annotations

import re


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
