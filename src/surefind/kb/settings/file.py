"""Edits values in surefind.toml and keeps its comments and layout.

    text = changed(read_settings(path), {("search", "k"): 5}, str(path))
    write_settings(path, text)

The text is returned only if the new text has the wanted values, leaves all other values unchanged, and is valid for
Surefind.
"""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AbstractTable, InlineTable, Item

from surefind.base.disk.sealed import write_file
from surefind.base.errors import ConfigError, is_full
from surefind.kb.settings.config import TEMPLATE, parse_settings

_BARE = re.compile(r"(?<!\r)\n")
Place = tuple[str, ...]
"""The path of a setting: the tables and, last, the key: `("search", "k")`."""


def value_of(path: Path, place: Place) -> Any:
    """Returns the value of a setting, or None if the file does not set it."""
    value: Any = _data(read_settings(path), str(path))
    for name in place:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def read_settings(path: Path) -> str:
    """Reads the text with its own line endings; a missing file gives the text that `surefind init` would write."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return TEMPLATE
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}).") from None


def check_writable(path: Path) -> None:
    """Raises an error if the file is read-only or its folder is. Replacing a file needs no right to write the old one,
    but a file that somebody protected must not change."""
    real = path.resolve()
    if real.exists() and not (real.stat().st_mode & 0o222 and os.access(real, os.W_OK)):
        raise ConfigError(
            f"{path} is read-only and was not changed. Make it writable: chmod u+w {shlex.quote(str(path))}."
        )
    if real.parent.exists() and not os.access(real.parent, os.W_OK):
        raise ConfigError(f"{path} was not changed, because its folder is read-only. Make {real.parent} writable.")


def write_settings(path: Path, text: str) -> None:
    """Writes the file atomically: all of it or nothing, even if the machine stops in the middle."""
    check_writable(path)
    path = path.resolve()  # a link stays a link
    try:
        write_file(path, text)
    except OSError as error:
        if is_full(error):
            raise
        raise ConfigError(f"{path} cannot be written ({error.strerror}). It was not changed.") from None


def changed(text: str, changes: Mapping[Place, Any], where: str) -> str:
    """Returns the text with the new values; errors call the text `where`."""
    wanted = _data(text, where)
    for place, value in changes.items():
        _set_plain(wanted, place, value, where)
    try:
        after = _edited(text, changes)
        faithful = tomllib.loads(after) == wanted
    except (TOMLKitError, tomllib.TOMLDecodeError, RecursionError):
        faithful = False
    if not faithful:
        names = ", ".join(".".join(place) for place in changes)
        raise ConfigError(f"{where} cannot be edited without changing other settings. Set {names} by hand.")
    parse_settings(after, where)
    return after


def _edited(text: str, changes: Mapping[Place, Any]) -> str:
    document = tomlkit.parse(text if text.endswith("\n") or not text else f"{text}\n")
    for place, value in changes.items():
        _set(document, place, value)
    after = tomlkit.dumps(document)
    if after.endswith("\n\n") and not text.endswith(("\n\n", "\n\r\n")):
        after = after.rstrip("\n") + "\n"
    crlf = "\r\n" in text and not _BARE.search(text)
    return _BARE.sub("\r\n", after) if crlf else after


def _data(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also a number with thousands of digits
        raise ConfigError(f"{where} is not valid TOML: {error}. It was not changed.") from None
    except RecursionError:
        raise ConfigError(f"{where} is nested too deeply. It was not changed.") from None


def _set_plain(data: dict[str, Any], place: Place, value: Any, where: str) -> None:
    for depth, name in enumerate(place[:-1], 1):
        data = data.setdefault(name, {})
        if not isinstance(data, dict):
            raise ConfigError(f"{where}: {'.'.join(place[:depth])} is not a table. It was not changed.")
    data[place[-1]] = value


def _set(document: tomlkit.TOMLDocument, place: Place, value: Any) -> None:
    table: Any = document
    for depth, name in enumerate(place[:-1], 1):
        if name not in table:
            # [pipelines.mine] needs no line [pipelines] above it
            table[name] = tomlkit.table(is_super_table=depth < len(place) - 1 or isinstance(value, dict))
        table = table[name]
    inline = isinstance(table, InlineTable) or not isinstance(value, dict)
    table[place[-1]] = value if inline else _table(value)


def _table(values: Mapping[str, Any]) -> Item:
    """A TOML table with an empty line at its end, which separates it from the next table."""
    made: AbstractTable = tomlkit.table()
    for key, value in values.items():
        made[key] = value
    made.add(tomlkit.nl())
    return made
