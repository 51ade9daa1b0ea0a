"""`docx`: reads Word files with headings (by style), lists, tables and footnotes, without pictures. mammoth converts
them to HTML, which becomes Markdown."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

from surefind.base.spec import Stage
from surefind.base.types import Document
from surefind.engine.files.formats import FORMATS
from surefind.engine.files.readers import need
from surefind.engine.ingest._html import parse, to_markdown
from surefind.engine.ingest._package import check_package
from surefind.engine.ingest.markdown import first_heading

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
