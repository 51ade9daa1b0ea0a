"""`html`: reads a web page as Markdown with headings, lists, tables and code, without menus, banners and notices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from surefind.base.spec import Stage
from surefind.base.types import Document
from surefind.engine.files.inside import is_access_key, is_alike, owner_only
from surefind.engine.files.readers import FORMATS
from surefind.engine.ingest._access_list import access_groups, with_access_only
from surefind.engine.ingest._decode import is_readable, read_text
from surefind.engine.ingest._html import content, parse, repeated, to_markdown

_NAMES = ("name", "property", "itemprop", "http-equiv")
"""The attributes of a meta element that may hold its name."""
_VALUES = ("content", "value")
"""The attributes that may hold its value."""
_ADVICE = 'write <meta name="acl" content="group">, or content="public" if everybody may read the page'


@dataclass(frozen=True)
class Html(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "html"
    suffixes: ClassVar[tuple[str, ...]] = FORMATS["html"].suffixes

    def read(self, path: Path, document_id: str) -> Iterable[Document]:
        source = read_text(path, _declared)
        soup = parse(source)
        listed = _listed(soup, document_id)
        front, page, own = with_access_only(source, document_id, decided=bool(listed))
        soup = parse(page) if page != source else soup
        groups = access_groups({"acl": list(listed)}, {"acl": list(own)})
        metadata = {**front, **_metadata(soup)}
        title = _text(soup.title) or _text(soup.find("h1")) or path.stem
        text = to_markdown(content(soup))
        yield Document(document_id, text, title, "markdown", metadata, groups)


def _declared(page: bytes) -> str:
    """The charset that a page declares. Latin-1 is read as cp1252, which contains it, as browsers do."""
    from bs4.dammit import EncodingDetector

    declared_encoding = EncodingDetector.find_declared_encoding(page, is_html=True) or ""
    return (
        "cp1252"
        if declared_encoding.lower().replace("_", "-") in ("iso-8859-1", "latin-1", "latin1", "us-ascii")
        else declared_encoding
    )


def _text(element: Any) -> str:
    return " ".join(element.get_text().split()) if element else ""


def _listed(soup: Any, document: str) -> tuple[str, ...]:
    """The groups of elements such as `<meta name="acl" content="hr, board">`. If one only looks like such a list, or
    cannot be read, nobody but the owner may read the page."""
    lists: list[list[str]] = []
    for meta in soup("meta"):
        others = repeated(meta)
        values = [(key, str(value)) for key, value in meta.attrs.items() if isinstance(value, str)] + others
        named = [(key, value) for key, value in values if key not in _VALUES and is_alike(value)]
        if not named:
            continue
        name = named[0][1]
        groups = [part.strip() for part in str(meta.get("content") or meta.get("value") or "").split(",")]
        if others or named[0][0] not in _NAMES or not is_access_key(name) or not is_readable(groups):
            twice = f" with {others[0][0]!r} twice" if others else " that cannot be read"
            why = f"line {meta.sourceline} has a meta element {name!r}{twice}"
            return owner_only(document, why, advice=_ADVICE)
        lists.append(groups)
    return access_groups(*({"acl": groups} for groups in lists))


def _metadata(soup: Any) -> dict[str, Any]:
    """The metadata of a page: `<meta name="status" content="approved">` -> status. `tags`, `keywords` and `acl` are
    split at commas."""
    metadata = {str(m["name"]).lower(): str(m["content"]) for m in soup("meta") if m.get("name") and m.get("content")}
    metadata.pop("viewport", None)
    lists = {"tags", "keywords", "acl"} & metadata.keys()
    return {**metadata, **{key: [part.strip() for part in metadata[key].split(",")] for key in lists}}
