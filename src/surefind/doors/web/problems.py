"""Shows errors to people: a page with one clear sentence, or a fragment of the page that is open."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.responses import HTMLResponse, RedirectResponse, Response

from surefind.doors.auth.caller import Caller
from surefind.doors.web.page import POLICY, environment

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
