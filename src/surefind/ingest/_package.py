"""What is checked of an office file before a library opens it: it is a ZIP of XML, and either can be a bomb."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

from surefind.errors import SourceError
from surefind.files.inside import scope
from surefind.ingest.zip import check_archive

_OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PIECE = 1 << 20
_TAIL = 32


def check_package(path: Path, part: str, kind: str) -> None:
    """Refuses a file that is no `kind` (those have a `part`), unpacks to too much, or declares XML entities."""
    with path.open("rb") as file:
        if file.read(8) == _OLD:
            raise SourceError(f"is encrypted or in the format before 2007; save it as {kind} without a password")
    try:
        with zipfile.ZipFile(path) as package:
            check_archive(package)
            if part not in package.namelist():
                raise SourceError(f"is not {kind} (it has no {part})")
            for name in package.namelist():
                if name.lower().endswith((".xml", ".rels", ".vml")):
                    _check_xml(package, name)
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError) as error:
        raise SourceError(f"is damaged or not {kind} ({error})") from None


def _check_xml(package: zipfile.ZipFile, name: str) -> None:
    """Office files never declare a document type; one that does wants an entity expanded."""
    here, tail = scope(), b""
    with package.open(name) as content:
        while piece := content.read(_PIECE):
            here.unpack(len(piece))
            seen = tail + piece.replace(b"\0", b"")  # UTF-16 must not hide it
            if b"<!DOCTYPE" in seen or b"<!ENTITY" in seen:
                raise SourceError(f"declares XML entities ({name}), which office files never do and attacks do")
            tail = seen[-_TAIL:]
