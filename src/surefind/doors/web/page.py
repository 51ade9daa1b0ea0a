"""Renders templates as pages, and serves the files that pages use."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from surefind.base.access import Scope
from surefind.base.errors import NotFoundError
from surefind.base.types import Hit
from surefind.doors.auth.caller import ANYONE, Caller
from surefind.doors.http.guard import wants_fragment
from surefind.engine.search.waiting import waiting_text

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""What a page may do: use the files of this server, and talk to it. Nothing inline, nothing from elsewhere."""
_FILES: Mapping[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "style.css": ("text/css", (("surefind.lab.bench", "page.css"), ("surefind.doors.web", "static/web.css"))),
    "htmx.js": ("text/javascript", (("surefind.doors.web", "static/htmx.min.js"),)),
    "web.js": ("text/javascript", (("surefind.doors.web", "static/web.js"),)),
    "label.js": ("text/javascript", (("surefind.doors.web", "static/label.js"),)),
}
_MAX_PATH_CHARS = 4_000
"""Characters of a path that a visitor is sent to, at most."""
_MARKED = 500
"""Characters of a sentence that an address carries, so that the page of the document marks it."""
_FOREVER = "public, max-age=31536000, immutable"
"""The address of a file contains a hash of it, so a browser may keep it."""


def page(caller: Caller | None, template: str, status: int = 200, policy: str = POLICY, **values: Any) -> HTMLResponse:
    """Returns a page. `values` needs `title`, and `here`, the name of its entry in the menu. Templates know the caller
    as `visitor`, because `caller` means something else in Jinja."""
    body = environment().get_template(template).render(visitor=caller, **values)
    return HTMLResponse(
        body, status, {"Content-Security-Policy": policy, "Vary": "HX-Request, HX-History-Restore-Request"}
    )


def is_fragment(request: Request) -> bool:
    """Whether htmx asks for a part of the page that is open."""
    return wants_fragment(request.headers)


def back_to(request: Request, path: str) -> Response:
    """Sends the browser to a page of this server after a change."""
    if is_fragment(request):
        return Response(status_code=204, headers={"HX-Redirect": path})
    return RedirectResponse(path, 303)


def local_path(text: str) -> str:
    """Returns a path of this server that a visitor may be sent to; `/` for every other address."""
    plain = text.isprintable() and text.startswith("/") and not text.startswith("//") and "\\" not in text
    return text if plain and len(text) <= _MAX_PATH_CHARS else "/"


def document_path(document: str, **given: object) -> str:
    """Returns the address of a document's page. `passage`, the id of a hit, and `query` mark a passage."""
    query = urlencode({name: value for name, value in given.items() if value not in (None, "")}, errors="replace")
    return f"/documents/{quote(document, errors='replace')}" + (f"?{query}" if query else "")


def hit_path(hit: Hit, query: str, sentence: str = "") -> str:
    """Returns the address that opens the document of a hit at a sentence, by default the one that the hit marks. The
    address has the sentence itself: for the query alone, the passage may have another best sentence than it has among
    the other hits."""
    if not sentence and hit.sentence:
        first, last = hit.sentence
        sentence = hit.text[max(0, first - hit.start) : max(0, last - hit.start)]
    return document_path(hit.document, passage=hit.id, query=(sentence or query)[:_MARKED]) + "#passage"


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("surefind.doors.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    made.globals |= {
        "static": address_of,
        "document_path": document_path,
        "hit_path": hit_path,
        "menu": menu,
        "waiting_text": waiting_text,
        "anyone": ANYONE,
    }
    made.filters |= {"count": lambda number: f"{number:,}", "plural": _plural, "date": _date}
    return made


_MENU: tuple[tuple[str, str, str, Scope], ...] = (
    ("search", "/", "Search", "read"),
    ("ask", "/ask", "Ask", "read"),
    ("documents", "/documents", "Documents", "read"),
    ("drafts", "/drafts", "Drafts", "write"),
    ("label", "/label", "Label", "review"),
    ("reports", "/reports", "Reports", "review"),
    ("graph", "/graph", "Graph", "read"),
    ("settings", "/settings", "Settings", "admin"),
)


def menu(visitor: Caller | None) -> list[tuple[str, str, str]]:
    """Returns the name, the address and the label of each page that a visitor may open. The settings tell the visitors
    of an open server how to make the first key."""
    if visitor is None:
        return []
    return [
        (name, path, label)
        for name, path, label, scope in _MENU
        if visitor.may(scope) or (name == "settings" and visitor.name == ANYONE)
    ]


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(seconds))


def _plural(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


@cache
def _content(name: str) -> bytes:
    if name not in _FILES:
        raise NotFoundError("There is no such file.")
    return b"\n".join(files(package).joinpath(path).read_bytes() for package, path in _FILES[name][1])


@cache
def address_of(name: str) -> str:
    """Returns the address of a file that pages use."""
    return f"/static/{name}?v={hashlib.sha256(_content(name)).hexdigest()[:12]}"


def static_file(name: str) -> Response:
    """Returns a file that pages use."""
    content = _content(name)
    return Response(content, media_type=_FILES[name][0], headers={"Cache-Control": _FOREVER})
