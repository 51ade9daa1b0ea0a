"""The policy for a page that has its script inside, as reports and graphs do: only these scripts may run.

A browser runs a script of the page only if its hash stands in the policy. The pages are rendered from data with our own
templates, so the hashes are those of our scripts, and nothing in the data can become one.
"""

from __future__ import annotations

import base64
import hashlib
from html.parser import HTMLParser
from typing import Literal

from starlette.responses import HTMLResponse

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
