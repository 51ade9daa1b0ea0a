"""Finds lines at the top of a file that look like an access list.

A reader that does not understand an access list would make the document public. So a document without a list of its
own is checked: if its head contains a line such as `acl: [hr]`, the document is left to the owner
(`surefind.engine.files.inside`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

from surefind.base.names import plain_letters

IN_FRONT_MATTER = (
    "write `acl: [group]` between two --- lines at the very top, `acl: [public]` if everybody may read the document, "
    "or remove the line"
)
IN_RECORD = "write `acl: [group]` in it, or `acl: [public]` if everybody may read it"
BY_PATH = "remove it, and restrict the file by its path: [[access]] in surefind.toml"
_KEY = "acl"
_ALIKE = frozenset(
    "acls xacl acllist aclgroup aclgroups aclread aclreaders aclroles aclusers accesslist accessgroups accesscontrol "
    "accesscontrollist allowedgroups".split()
)
_NAME = (
    r"(?:acls?|acl[\s._-]?(?:list|groups?|read(?:ers)?|roles|users)|"
    r"access[\s._-]?(?:list|groups|control(?:[\s._-]?list)?)|allowed[\s._-]?groups)"
)
_LINE = re.compile(
    rf"^[\W_]{{0,20}}(?:x-)?{_NAME}[\s\"'*_`]{{0,5}}[:=;](?P<value>.*)"
    rf"|\{{(?:.*,)?[\s\"']{{0,20}}{_NAME}[\s\"']{{0,5}}[:=]|<!--\s*{_NAME}\s*[:=]",
    re.IGNORECASE,
)
"""An access list: at the start of a line, in an object, in a comment."""
_BARE = re.compile(rf"[\W_]{{0,20}}{_NAME}\b", re.IGNORECASE)
"""A line that begins with the name. Inside a block it is an access list, even without a colon."""
_EMPTY = re.compile(r"\s*+(?:(?:null|~|\[\s*+\])\s*+)?", re.IGNORECASE)
_FENCE = re.compile(r"\s*(?:-{2,}|\+{3,}|;{3,}|[—–]+)\s*(?:#.*)?")
_HEAD_LINE = re.compile(r"\s*$|(?!<(?:body|main|h1|p|div)\b)[^\w]|[\w .-]{1,60}[:=;\[]", re.IGNORECASE)
"""A line that does not end the head: empty, indented, beginning with a mark, or `key: value`."""
_MIN_HEAD_LINES = 10
"""Lines that belong to the head whatever they contain."""
_MAX_HEAD_LINES = 1000
_MAX_LINE_CHARS = 2000
"""Characters of a line that are looked at."""
_ANYWHERE = re.compile(rf"^[^\w\n]*{_NAME}\W{{0,5}}?[:=]|[\"']{_NAME}\s*[\"']\s*[:=]", re.IGNORECASE | re.MULTILINE)


def is_access_key(key: str) -> bool:
    """Returns whether a metadata key is `acl`, in any case, with any blanks or marks around it, and with letters of
    other scripts that look like these."""
    return _folded(key) == _KEY


def resembles_access_key(key: str) -> bool:
    """Returns whether a key is `acl`, or one that is easily written instead, such as `acls`, `acl_groups` or `acI`."""
    return _folded(key) in _ALIKE or is_access_key(key) or _folded(_like_l(key)) in (_KEY, *_ALIKE)


@lru_cache(maxsize=4096)
def _folded(key: str) -> str:
    return "".join(filter(str.isalnum, plain_letters(key))).casefold()


def _like_l(text: str) -> str:
    """Returns a text in which what looks like a small l is one: a capital I, a bar."""
    return text.replace("I", "l").replace("|", "l")


def access_line(text: str, read: int = 0) -> tuple[int, str] | None:
    """Returns the first line of a text's head that looks like an access list, with its number; None if there is none.

    `read` is the number of empty access lists that the reader understood. These lines are allowed.
    """
    lines = [(number, match) for number, line, fenced in _head(text) if (match := _access_line(line, fenced))]
    wrong = [line for line in lines if not (read and _EMPTY.fullmatch(line[1].groupdict().get("value") or ""))]
    if not wrong and len(lines) <= read:
        return None
    number, match = (wrong or lines)[0]
    return number, " ".join(match.string.split())


def code_head(text: str) -> str:
    """Returns the lines of source code in which `access_line` may find an access list: of the first lines, those with a
    colon, because `acl = …` is an assignment. The other lines are empty, so that the numbers stay."""
    first = islice(_lines(text), _MIN_HEAD_LINES)
    return "\n".join(line if ":" in line and "=" not in line else "" for line in first)


def access_name(names: Iterable[str]) -> str:
    """Returns the first of some columns, headers or fields that has the name of an access list; empty if none has."""
    return next((name.strip() for name in names if resembles_access_key(name)), "")


def may_restrict(data: bytes) -> bool:
    """Returns whether a file that could not be read may contain an access list: it begins with front matter, or has a
    line or a key that looks like a list."""
    text = plain_letters(data.replace(b"\0", b"").decode("utf-8", "replace"))
    first = next((line for line in _lines(text) if line.strip()), "")
    return _FENCE.fullmatch(first) is not None or _ANYWHERE.search(text) is not None


def _head(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yields the lines of the head with their numbers, each with whether it is inside a block that begins on the first
    line."""
    lines = ((number, line) for number, line in enumerate(_lines(text), 1) if line.strip())
    begun = fenced = False
    for count, (number, line) in enumerate(islice(lines, _MAX_HEAD_LINES)):
        if count >= _MIN_HEAD_LINES and not _HEAD_LINE.match(line):
            return
        if _FENCE.fullmatch(line):
            fenced = not begun
            begun = True
        yield number, line, fenced
        begun = True


def _lines(text: str) -> Iterator[str]:
    """Yields the lines of a text, shortened, in plain characters. Only the beginning of a long text is looked at."""
    for line in text[: _MAX_HEAD_LINES * 200].splitlines():
        yield plain_letters(line[:_MAX_LINE_CHARS])


def _access_line(line: str, fenced: bool) -> re.Match[str] | None:
    for text in dict.fromkeys((line, _like_l(line))):
        if match := _LINE.search(text) or (_BARE.match(text) if fenced else None):
            return match
    return None
