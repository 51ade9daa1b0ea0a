"""`html`: reads a web page as Markdown with headings, lists, tables and code, without menus, banners and notices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from surefind.ingest._decode import read_text
from surefind.ingest._front_matter import access_groups
from surefind.ingest._html import content, parse, to_markdown
from surefind.spec import Stage
from surefind.types import Document


@dataclass(frozen=True)
class Html(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "html"
    suffixes: ClassVar[tuple[str, ...]] = (".html", ".htm", ".xhtml")

    def read(self, path: Path, id: str) -> Iterable[Document]:
        soup = parse(read_text(path, _declared))
        metadata = _metadata(soup)
        title = _text(soup.title) or _text(soup.find("h1")) or path.stem
        text = to_markdown(content(soup))
        yield Document(id, text, title, "markdown", metadata, access_groups(metadata))


def _declared(page: bytes) -> str:
    """The charset that a page declares. Latin-1 is read as cp1252, which contains it, as browsers do."""
    from bs4.dammit import EncodingDetector

    found = EncodingDetector.find_declared_encoding(page, is_html=True) or ""
    return "cp1252" if found.lower().replace("_", "-") in ("iso-8859-1", "latin-1", "latin1", "us-ascii") else found


def _text(element: Any) -> str:
    return " ".join(element.get_text().split()) if element else ""


def _metadata(soup: Any) -> dict[str, Any]:
    """The metadata of a page: `<meta name="status" content="approved">` -> status. `tags`, `keywords` and `acl` are
    split at commas."""
    found = {str(m["name"]).lower(): str(m["content"]) for m in soup("meta") if m.get("name") and m.get("content")}
    found.pop("viewport", None)
    lists = {"tags", "keywords", "acl"} & found.keys()
    return {**found, **{key: [part.strip() for part in found[key].split(",")] for key in lists}}
