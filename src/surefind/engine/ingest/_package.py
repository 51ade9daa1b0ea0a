"""Checks an office file before a library opens it: it is a ZIP of XML files, and both formats allow bombs."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

from surefind.base.errors import SourceError
from surefind.engine.files.inside import scope
from surefind.engine.ingest.zip import check_archive

_OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""The first bytes of encrypted office files and of those before 2007."""
_PIECE = 1 << 20
"""Bytes unpacked at a time."""
_TAIL = 32
"""Bytes of a piece that are searched again with the next one, for a declaration on the boundary."""


def check_package(path: Path, part: str, kind: str) -> None:
    """Raises `SourceError` if the file has no `part` (so it is not `kind`), unpacks to too much, or declares XML
    entities."""
    with path.open("rb") as file:
        if file.read(8) == _OLE_MAGIC:
            raise SourceError(f"is encrypted or in the Office format before 2007; save it as {kind} without a password")
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
    """Raises `SourceError` if an XML file declares a document type. Office files never do; entity bombs need to."""
    here, tail = scope(), b""
    with package.open(name) as content:
        while piece := content.read(_PIECE):
            here.unpack(len(piece))
            seen = tail + piece.replace(b"\0", b"")  # finds the declaration in UTF-16 too
            if b"<!DOCTYPE" in seen or b"<!ENTITY" in seen:
                raise SourceError(f"declares XML entities ({name}); office files never do, so it may be an attack")
            tail = seen[-_TAIL:]
