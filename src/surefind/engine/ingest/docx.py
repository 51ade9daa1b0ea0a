"""`docx`: reads Word files with headings (by style), lists, tables and footnotes, without pictures. mammoth converts
them to HTML, which becomes Markdown.

Checks an office file before a library opens it: it is a ZIP of XML files, and both formats allow bombs.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

from surefind.base.errors import SourceError
from surefind.base.spec import Stage
from surefind.base.types import Document
from surefind.engine.files.inside import scope
from surefind.engine.files.readers import FORMATS, need
from surefind.engine.ingest._html import parse, to_markdown
from surefind.engine.ingest.markdown import first_heading
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


_STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"
_TITLE = "{http://purl.org/dc/elements/1.1/}title"


@dataclass(frozen=True)
class Docx(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "docx"
    suffixes: ClassVar[tuple[str, ...]] = FORMATS["docx"].suffixes
    needs: ClassVar[tuple[str, ...]] = FORMATS["docx"].needs
    extra: ClassVar[str] = FORMATS["docx"].extra

    def read(self, path: Path, document_id: str) -> Iterable[Document]:
        need(self.needs, self.extra)
        check_package(path, "word/document.xml", "a Word file (.docx)")
        import mammoth

        with path.open("rb") as file:
            html = mammoth.convert_to_html(file, style_map=_STYLES, convert_image=_no_picture).value
        text = to_markdown(parse(html))
        yield Document(document_id, text, package_title(path) or first_heading(text) or path.stem, "markdown")


def _no_picture(image: Any) -> list[Any]:
    return []


def package_title(path: Path) -> str:
    """Returns the title from an office file's properties; empty if there is none."""
    with zipfile.ZipFile(path) as package:
        if "docProps/core.xml" not in package.namelist():
            return ""
        try:
            element = ElementTree.fromstring(package.read("docProps/core.xml")).find(_TITLE)
        except ElementTree.ParseError:
            return ""
    return (element.text or "").strip() if element is not None else ""
