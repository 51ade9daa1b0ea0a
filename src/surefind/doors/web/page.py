"""Renders templates as pages, and serves the files that pages use.

The policy for a page that has its script inside, as reports and graphs do: only these scripts may run.

A browser runs a script of the page only if its hash stands in the policy. The pages are rendered from data with our own
templates, so the hashes are those of our scripts, and nothing in the data can become one.

Shows errors to people: a page with one clear sentence, or a fragment of the page that is open.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Mapping
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any, Literal
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from surefind.base.access import Caller, Scope
from surefind.base.errors import NotFoundError
from surefind.base.types import Hit
from surefind.doors.auth.keys import ANYONE
from surefind.doors.http.guard import wants_fragment
from surefind.engine.search.pipeline import waiting_text

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


_DATA = ("application/json",)
"""Types of script elements that hold data. Browsers do not run them."""


_BACK = (
    "position:fixed;left:.8rem;{edge}:.7rem;z-index:9;padding:.3rem .75rem;border-radius:99px;font:14px system-ui;"
    "background:Canvas;color:LinkText;border:1px solid GrayText;text-decoration:none"
)


def with_own_scripts(html: str, back: str, label: str, edge: Literal["top", "bottom"] = "bottom") -> HTMLResponse:
    """Returns a response with a page whose scripts may run, and no others. A link at the edge leads to `back`."""
    html = html.replace("<body>", f'<body>\n<a href="{back}" style="{_BACK.format(edge=edge)}">← {label}</a>', 1)
    allowed = " ".join(f"'sha256-{digest}'" for digest in script_hashes(html)) or "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(html, headers={"Content-Security-Policy": policy})


def script_hashes(html: str) -> list[str]:
    """Returns the SHA-256 of every script in a page, in base64."""
    scripts = _Scripts()
    scripts.feed(html)
    scripts.close()
    return [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts.texts]


class _Scripts(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script" and dict(attrs).get("type") not in _DATA:
            self._inside = True
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[-1] += data


_TITLES = {
    403: "You may not do this", 404: "Nothing is here", 409: "Somebody else was faster", 413: "This is too large",
    429: "Too many requests", 503: "Not ready yet", 504: "This took too long",
}  # fmt: skip


def as_page(error: dict[str, Any], asked: str, fragment: bool, visitor: Caller | None) -> Response:
    """Returns the page for a problem, with the menu of a visitor who is known. One who has not signed in is sent to do
    so."""
    status = int(error["status"])
    if status == 401:
        where = f"/sign-in?next={quote(asked)}"
        return Response(status_code=401, headers={"HX-Redirect": where}) if fragment else RedirectResponse(where, 303)
    values = {"status": status, "detail": error["detail"], "request_id": error.get("request_id", "")}
    title = _TITLES.get(status, "This did not work")
    name = "problem_fragment.html" if fragment else "problem.html"
    body = environment().get_template(name).render(visitor=visitor, title=title, here="", **values)
    return HTMLResponse(body, status, {"Content-Security-Policy": POLICY})
