"""Decodes the bytes of a text file, or raises an error that says why it cannot.

Makes an object from its keys and values when a key is repeated: no access list is lost.

YAML and JSON keep the last of several values with the same key. An access list in an earlier one would be gone, and the
document might be open to more people than somebody decided.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

from surefind.base.access import EVERYTHING, PUBLIC, checked_name
from surefind.base.errors import SourceError, UsageError
from surefind.engine.files.inside import is_access_key, is_alike, scope
from surefind.engine.files.opening import read_file

_SAVE = "save it as UTF-8"
SAVE_OR_SET_ENCODING = "save it as UTF-8, or write readers = ['{}(encoding=cp1252)'] in surefind.toml"
"""Advice for readers with an `encoding`; `{}` is the reader's name."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path, otherwise: Callable[[bytes], str] = lambda data: "", advice: str = _SAVE) -> str:
    """Reads a text file, converts line ends to `\\n` and removes the byte order mark.

    The text is UTF-16 if the file has its byte order mark, else UTF-8 if the bytes are valid UTF-8, which other text
    hardly ever is by chance. For all other files, `otherwise` names the encoding. `advice` ends the error message of a
    file that cannot be decoded.
    """
    try:
        data = read_file(path, scope().limits.file_mb)
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror or error}") from error
    chosen = "utf-16" if data.startswith(_UTF16) else "utf-8-sig"
    if not _fits(data, chosen):
        chosen = otherwise(data) or chosen
    try:
        text = data.decode(chosen)
    except LookupError:
        raise SourceError(f"cannot be read: there is no encoding called {chosen!r}") from None
    except UnicodeDecodeError as error:
        if b"\0" in data:
            raise SourceError("looks binary (it contains NUL bytes)") from None
        wrong = data[error.start : error.start + 1].hex()
        name = {"utf-16": "UTF-16", "utf-8-sig": "UTF-8"}.get(chosen, chosen)
        raise SourceError(f"is not {name} text (byte 0x{wrong} at {error.start}); {advice}") from None
    if "\0" in text:
        raise SourceError("looks binary (it contains NUL bytes)")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _fits(data: bytes, encoding: str) -> bool:
    try:
        return "\0" not in data.decode(encoding)  # UTF-16 without a mark is valid UTF-8 with NULs
    except UnicodeDecodeError:
        return False


def unique_keys(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Makes an object from its pairs. Of a repeated key the last value counts. Of several access lists the groups count
    that are in each; any other list that would be lost leaves the document to the owner."""
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
        elif any(next(access_keys({key: value}), None) for value in several[:-1]):
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


def access_keys(value: Any, spelled: bool = True) -> Iterator[str]:
    """Yields the keys, at any depth, that fold to an access list and are not empty. Without `spelled`, those that are
    spelled like one are left out."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if item not in (None, []) and is_alike(str(key)) and (spelled or not is_access_key(str(key))):
                yield str(key)
            yield from access_keys(item, spelled)
    elif isinstance(value, list):
        for item in value:
            yield from access_keys(item, spelled)
