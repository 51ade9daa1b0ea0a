"""`zip`: reads an archive. The reader for each member's type reads it as a document of its own.

Sizes are counted while unpacking, because the declared ones cannot be trusted. A member's path is never used to write a
file.
"""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import ClassVar

from surefind.base.errors import SourceError
from surefind.base.names import one_spelling, wrong_name
from surefind.base.spec import Stage
from surefind.base.types import Document
from surefind.engine.files.inside import OverLimitError, complain, owner_only, read_inside, scope
from surefind.engine.files.readers import FORMATS
from surefind.engine.files.scan import IGNORED

_ENCRYPTED = 0x1
_UNLIMITED_RATIO_BYTES = 1_000_000
"""Unpacked bytes up to which a member's compression ratio is not limited."""


@dataclass(frozen=True)
class Zip(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "zip"
    suffixes: ClassVar[tuple[str, ...]] = FORMATS["zip"].suffixes

    def read(self, path: Path, document_id: str) -> Iterable[Document]:
        try:
            with zipfile.ZipFile(path) as archive:
                check_archive(archive)
                members = _wanted(archive)
                if not members:
                    raise SourceError("contains no file of a known type")
                for name, same in members.items():
                    yield from _read(archive, name, same, document_id)
        except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError) as error:
            raise SourceError(f"is damaged or not a ZIP archive ({error})") from None


def check_archive(archive: zipfile.ZipFile) -> None:
    """Raises `OverLimitError` if the sizes that an archive declares are over the limits, as those of a zip bomb."""
    limits = scope().limits
    members = archive.infolist()
    if len(members) > limits.members:
        raise OverLimitError(f"holds more than {limits.members:,} files (max_members)")
    for member in members:
        times = member.file_size / max(member.compress_size, 1)
        if member.file_size > _UNLIMITED_RATIO_BYTES and times > limits.ratio:
            raise OverLimitError(f"has a member compressed {times:,.0f}:1, like a zip bomb (max_ratio)")
    if sum(member.file_size for member in members) > limits.unpacked_mb * 1e6:
        raise OverLimitError(f"unpacks to more than {limits.unpacked_mb:g} MB (max_unpacked_mb)")


def _wanted(archive: zipfile.ZipFile) -> dict[str, list[zipfile.ZipInfo]]:
    """The members that have a reader, by their names, in order of name."""
    members: dict[str, list[zipfile.ZipInfo]] = {}
    for member in filter(_is_document, archive.infolist()):
        members.setdefault(_name(member), []).append(member)
    return dict(sorted(members.items()))


def _name(member: zipfile.ZipInfo) -> str:
    """The path of a member in its one spelling. Programs that pack a folder write `./` before each path."""
    path = one_spelling(member.filename.replace("\\", "/"))
    return "/" * path.startswith("/") + "/".join(part for part in path.split("/") if part not in ("", "."))


def _is_document(member: zipfile.ZipInfo) -> bool:
    steps = PurePosixPath(_name(member)).parts
    link = stat.S_ISLNK(member.external_attr >> 16)
    if member.is_dir() or link or scope().readers.find(member.filename) is None:
        return False
    return not any((s.startswith(".") and s != "..") or s in IGNORED or s == "__MACOSX" for s in steps)


def _read(archive: zipfile.ZipFile, name: str, members: list[zipfile.ZipInfo], document_id: str) -> Iterable[Document]:
    """Reads the members of one name. If there are several, programs disagree on which one counts, and on its access
    list, so nobody but the owner may read any."""
    if name.startswith("/") or ".." in name.split("/") or ":" in name.split("/")[0]:
        complain("has a name that leads out of the archive", name)
        return
    if why := wrong_name(name):
        complain(f"has a name that no document can have ({why})", name)
        return
    closed: tuple[str, ...] = ()
    if len(members) > 1:
        why = f"the archive has {len(members)} files of this name"
        closed = owner_only(f"{document_id}/{name}", why, name, "make the archive again, with one file of each name")
    for member in members:
        if member.flag_bits & _ENCRYPTED:
            complain("is encrypted", name)
            continue
        try:
            with archive.open(member) as content:
                documents = read_inside(name, content, f"{document_id}/{name}")
                yield from (replace(document, acl=closed) if closed else document for document in documents)
        except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError) as error:
            complain(f"is damaged ({error})", name)
