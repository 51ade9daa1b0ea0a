"""Reads files inside files, and records the parts of a file that could not be read.

A reader that finds another file in its own (a member of an archive, an attachment) passes it to `read_inside`. A
reader that can read only part of a file reports the rest with `complain`. A document that looks restricted, without an
access list that can be read, is left to the owner with `owner_only`; the other documents of its file are read. All use
the current `Scope`, which counts what was unpacked at all levels of nesting. Without a current scope the default limits
apply.

Finds lines at the top of a file that look like an access list.

A reader that does not understand an access list would make the document public. So a document without a list of its
own is checked: if its head contains a line such as `acl: [hr]`, the document is left to the owner
(`surefind.engine.files.inside`).
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO

from surefind.base.abilities import declared
from surefind.base.access import EVERYTHING
from surefind.base.errors import SourceError, SurefindError
from surefind.base.names import plain_letters
from surefind.base.protocols import Reader
from surefind.base.types import Document
from surefind.engine.files.opening import FileLimits
from surefind.engine.files.readers import Readers

IN_FRONT_MATTER = (
    "write `acl: [group]` between two --- lines at the very top, `acl: [public]` if everybody may read the document, "
    "or remove the line"
)
IN_RECORD = "write `acl: [group]` in it, or `acl: [public]` if everybody may read it"
BY_PATH = "remove it, and restrict the file by its path: [[access]] in surefind.toml"
_KEY = "acl"
_NAMES = frozenset(
    "acl acls xacl acllist aclgroup aclgroups aclread aclreaders aclroles aclusers accesslist accessgroups "
    "accesscontrol accesscontrollist allowedgroups".split()
)
_BEGINNING = re.compile(r"a[\W_]*(?:c[\W_]*[clI|]|[lI|][\W_]*[lI|])", re.IGNORECASE)
"""How each of the names begins, so that most lines need no second look."""
_SEPARATOR = re.compile(r"[:=;]")
_OPENING = re.compile(r"[{<]")
_OPENING_IN_OBJECT = re.compile(r"[{,<]")
_MAX_KEY_CHARS = 80
"""Characters before a separator that may be a key, with the marks around it."""
_EMPTY = re.compile(r"\s*+(?:(?:null|~|\[\s*+\])\s*+)?", re.IGNORECASE)
_FENCE = re.compile(r"\s*(?:-{2,}|\+{3,}|;{3,}|[—–]+)\s*(?:#.*)?")
_HEAD_LINE = re.compile(r"\s*$|(?!<(?:body|main|h1|p|div)\b)[^\w]|[\w .-]{1,60}[:=;\[]", re.IGNORECASE)
"""A line that does not end the head: empty, indented, beginning with a mark, or `key: value`."""
_MIN_HEAD_LINES = 10
"""Lines that belong to the head whatever they contain."""
_MAX_HEAD_LINES = 1000
_MAX_LINE_CHARS = 2000
"""Characters of a line that are looked at."""


def is_access_key(key: str) -> bool:
    """Returns whether a key is spelled like that of an access list: `acl`, in any case, with blanks around it."""
    return key.strip().lower() == _KEY


@lru_cache(maxsize=4096)
def is_alike(key: str) -> bool:
    """Returns whether a key folds to that of an access list: letters of other scripts become those that they look like,
    marks and blanks vanish, and `acls` or `acl_groups` are written easily instead. One that is not spelled like it
    restricts its document to the owner."""
    letters = plain_letters(key)
    forms = (letters, letters.replace("I", "l").replace("|", "l"))
    return any("".join(filter(str.isalnum, form)).casefold() in _NAMES for form in forms)


def access_line(text: str, read: int = 0) -> tuple[int, str] | None:
    """Returns the first line of a text's head that looks like an access list, with its number; None if there is none.

    `read` is the number of empty access lists that the reader understood. These lines are allowed.
    """
    lines = [
        (number, line, value) for number, line, fenced in _head(text) if (value := _value(line, fenced)) is not None
    ]
    wrong = [line for line in lines if not (read and _EMPTY.fullmatch(line[2]))]
    if not wrong and len(lines) <= read:
        return None
    number, line, _ = (wrong or lines)[0]
    return number, " ".join(line.split())


def code_head(text: str) -> str:
    """Returns the lines of source code in which `access_line` may find an access list: of the first lines, those with a
    colon, because `acl = …` is an assignment. The other lines are empty, so that the numbers stay."""
    first = islice(_lines(text), _MIN_HEAD_LINES)
    return "\n".join(line if ":" in line and "=" not in line else "" for line in first)


def access_name(names: Iterable[str]) -> str:
    """Returns the first of some columns, headers or fields that has the name of an access list; empty if none has."""
    return next((name.strip() for name in names if is_alike(name)), "")


def may_restrict(data: bytes) -> bool:
    """Returns whether a file that could not be read may contain an access list: it begins with front matter, or has a
    line or a key that looks like a list."""
    text = plain_letters(data.replace(b"\0", b"").decode("utf-8", "replace"))
    first = next((line for line in _lines(text) if line.strip()), "")
    return _FENCE.fullmatch(first) is not None or any(_value(line, False) is not None for line in text.splitlines())


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


def _value(line: str, fenced: bool) -> str | None:
    """Returns what follows the first key of a line that folds to an access list; None if there is none. Inside a block,
    the name alone is one, even without a colon."""
    if not _BEGINNING.search(line):
        return None
    opening = _OPENING_IN_OBJECT if "{" in line else _OPENING
    begin = 0
    for separator in _SEPARATOR.finditer(line):
        key = opening.split(line[begin : separator.start()][-_MAX_KEY_CHARS:])[-1]
        begin = separator.end()
        if is_alike(key):
            return line[begin:].rstrip(" }")
    words = re.findall(r"\w+", line[:_MAX_KEY_CHARS])[:3] if fenced else []
    return line if any(is_alike("".join(words[: n + 1])) for n in range(len(words))) else None


_PIECE = 1 << 20
"""Bytes unpacked at a time."""
LOOKS_RESTRICTED = "looks restricted"
"""How the reason begins why a document is left to the owner."""
_MAX_SHOWN_CHARS = 100
"""Characters of a line that a message shows."""


class OverLimitError(SourceError):
    """An archive exceeds a limit. The whole archive is refused, not only one member."""


@dataclass
class Scope:
    """The state of reading one file and everything inside it."""

    limits: FileLimits = field(default_factory=FileLimits)
    readers: Readers = field(default_factory=Readers)
    complaints: list[tuple[str, str]] = field(default_factory=list)
    """(path of the member inside the file, or empty for the file itself; reason)"""
    alive: Callable[[], None] = lambda: None
    """Restarts the time limit of the file."""
    unpacked: int = 0
    """Bytes unpacked so far, at all levels of nesting."""
    members: int = 0
    """Files found inside the file so far, at all levels of nesting."""
    trail: tuple[str, ...] = ()
    """The names of the members being read, from the outermost to the innermost."""

    def unpack(self, size: int) -> None:
        """Counts unpacked bytes. Raises `OverLimitError` if there are too many."""
        self.unpacked += size
        if self.unpacked > self.limits.unpacked_mb * 1e6:
            raise OverLimitError(f"unpacks to more than {self.limits.unpacked_mb:g} MB (max_unpacked_mb)")

    def enter(self) -> None:
        """Counts a member. Raises `OverLimitError` if there are too many, or they are nested too deeply."""
        self.members += 1
        if self.members > self.limits.members:
            raise OverLimitError(f"holds more than {self.limits.members:,} files (max_members)")
        if len(self.trail) > self.limits.nesting:
            raise OverLimitError(f"nests archives more than {self.limits.nesting} deep (max_nesting)")


_SCOPE: ContextVar[Scope | None] = ContextVar("scope", default=None)


@contextlib.contextmanager
def reading(limits: FileLimits, readers: Readers, alive: Callable[[], None] = lambda: None) -> Iterator[Scope]:
    """Makes a new scope the current one for the block."""
    scope = Scope(limits, readers, alive=alive)
    token = _SCOPE.set(scope)
    try:
        yield scope
    finally:
        _SCOPE.reset(token)


def scope() -> Scope:
    """Returns the scope of the file being read, or a new one if a reader is called on its own."""
    return _SCOPE.get() or Scope()


def complain(reason: str, inside: str = "") -> None:
    """Records a part of the file that could not be read. The rest of the file is indexed."""
    here = scope()
    here.complaints.append(("/".join((*here.trail, *([inside] if inside else []))), reason))


def owner_only(document: str, why: str, where: str = "", advice: str = BY_PATH) -> tuple[str, ...]:
    """Returns the access list of a document that looks restricted and has no list that can be read: only the owner may
    read it. Records why, and `where` in the file."""
    complain(f"{LOOKS_RESTRICTED}: {why}. Only the owner may read {document}; {advice}", where)
    return (EVERYTHING,)


def owner_if_alike(document: str, text: str, advice: str = BY_PATH, read: int = 0) -> tuple[str, ...]:
    """Returns the access list of a document whose file has this text: the owner alone if a line of its head looks like
    one, else no groups, because nobody decided. `read` is as in `access_line`."""
    line = access_line(text, read)
    return owner_only(document, f"line {line[0]} is {line[1][:_MAX_SHOWN_CHARS]!r}", advice=advice) if line else ()


def guarded(document: Document, where: str = "", advice: str = BY_PATH) -> Document:
    """Leaves a document without an access list to the owner if its text begins with what looks like one."""
    line = None if document.acl else access_line(document.text)
    if line is None:
        return document
    why = f"line {line[0]} of its text is {line[1][:_MAX_SHOWN_CHARS]!r}"
    return replace(document, acl=owner_only(document.id, why, where, advice))


def read_checked(reader: Reader, path: Path, document_id: str) -> Iterator[Document]:
    """Reads the documents of a file. One that begins with an access list that its reader did not understand is left to
    the owner. Readers with `checks_access` have looked at the file themselves."""
    for document in reader.read(path, document_id):
        yield document if declared(reader).checks_access else guarded(document)


def still_working() -> None:
    """Restarts the time limit. For slow work in a known number of steps, such as recognising the pages of a scan."""
    scope().alive()


def read_inside(name: str, content: IO[bytes], document_id: str) -> Iterable[Document]:
    """Reads the documents of a file inside the current one. If it cannot be read, records a complaint and returns no
    documents."""
    with reading_on(name) as here:
        reader = here.readers.find(name)
        if reader is None:
            return []
        with tempfile.TemporaryDirectory(prefix="surefind-") as folder:
            try:
                return list(
                    read_checked(reader, _copied(content, Path(folder) / PurePosixPath(name).name, here), document_id)
                )
            except OverLimitError:
                raise
            except (SurefindError, OSError) as error:
                complain(str(error))
            except Exception as error:  # an unexpected error in a library fails this member, not the archive
                complain(f"cannot be read ({type(error).__name__}: {error})")
    return []


@contextlib.contextmanager
def reading_on(name: str) -> Iterator[Scope]:
    """Goes one level of nesting deeper for the block, in the current scope or a new one."""
    here = scope()
    token = _SCOPE.set(here)
    before = here.trail
    here.trail = (*before, name)
    try:
        here.enter()
        yield here
    finally:
        here.trail = before
        _SCOPE.reset(token)


def _copied(content: IO[bytes], path: Path, here: Scope) -> Path:
    """Writes the content to disk and counts its bytes, because the sizes an archive declares cannot be trusted."""
    size = 0
    with path.open("wb") as file:
        while piece := content.read(_PIECE):
            here.unpack(len(piece))
            size += len(piece)
            if size > here.limits.file_mb * 1e6:
                raise SourceError(f"is larger than {here.limits.file_mb:g} MB (max_file_mb)")
            file.write(piece)
    return path
