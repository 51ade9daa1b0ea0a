"""`html`: a page as Markdown: headings, lists, tables and code kept; scripts, menus and footers left out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from surefind.ingest._decode import read_text
from surefind.ingest._front_matter import access_groups
from surefind.spec import Stage
from surefind.types import Document

_NOT_CONTENT = ["script", "style", "noscript", "template", "nav", "footer", "aside", "form", "iframe", "svg"]
_BLANKS = re.compile(r"\n{3,}")


@dataclass(frozen=True)
class Html(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "html"
    suffixes: ClassVar[tuple[str, ...]] = (".html", ".htm", ".xhtml")

    def read(self, path: Path, id: str) -> Iterable[Document]:
        from bs4 import BeautifulSoup
        from markdownify import MarkdownConverter

        soup = BeautifulSoup(read_text(path), "html.parser")
        metadata = _metadata(soup)
        heading = soup.find("h1")
        title = _text(soup.title) or _text(heading) or path.stem
        for element in soup(_NOT_CONTENT):
            element.decompose()
        content = soup.find("main") or soup.find("article") or soup.body or soup
        body = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(content)
        text = _BLANKS.sub("\n\n", body).strip() + "\n"
        yield Document(id, text, title, "markdown", metadata, access_groups(metadata))


def _text(element: Any) -> str:
    return " ".join(element.get_text().split()) if element else ""


def _metadata(soup: Any) -> dict[str, Any]:
    """`<meta name="status" content="approved">` -> status; `tags`, `keywords` and `acl` as lists."""
    found = {str(m["name"]).lower(): str(m["content"]) for m in soup("meta") if m.get("name") and m.get("content")}
    found.pop("viewport", None)
    lists = {"tags", "keywords", "acl"} & found.keys()
    return {**found, **{key: [part.strip() for part in found[key].split(",")] for key in lists}}
