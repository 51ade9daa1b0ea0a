"""What both clients send, and how they read the answers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal
from urllib.parse import quote

from surefind.errors import MissingPartError, RefusedError
from surefind.types import Hit, SearchResult, StageScore, TraceEntry

_TRIES = 3
"""Attempts at a request that the server refused because it is busy."""
BUSY = (429, 503)
Action = Literal["submit", "approve", "return", "rebase", "discard", "publish"]
"""What can be done with a draft."""


@dataclass(frozen=True)
class Call:
    """One request."""

    method: str
    path: str
    params: Mapping[str, Any] | None = None
    json: Mapping[str, Any] | None = None
    content: bytes | None = None
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Found(SearchResult):
    """The result of a search over HTTP."""

    next: str | None = None
    """The address of the next hits, of the same ranking; None after the last ones."""


def search(query: str, options: Mapping[str, Any]) -> Call:
    return Call("POST", "/v1/search", json={"query": query, **_given(options)})


def ask(query: str, options: Mapping[str, Any]) -> Call:
    return Call("POST", "/v1/ask", json={"query": query, **_given(options)})


def passage(passage_id: str, options: Mapping[str, Any]) -> Call:
    return Call("GET", f"/v1/passages/{quote(passage_id, safe='')}", _given(options))


def document(document: str) -> Call:
    return Call("GET", f"/v1/documents/{quote(document)}")


def documents(below: str, offset: int, limit: int) -> Call:
    return Call("GET", "/v1/documents", {"below": below, "offset": offset, "limit": limit})


def upload(name: str, content: bytes, document: str) -> Call:
    return Call("POST", "/v1/documents", {"name": name, "document": document}, content=content)


def versions(document: str) -> Call:
    return Call("GET", "/v1/versions", {"document": document})


def retire(document: str) -> Call:
    return Call("POST", f"/v1/documents/{quote(document)}/retire")


def restore(version: int) -> Call:
    return Call("POST", f"/v1/versions/{version}/restore")


def drafts() -> Call:
    return Call("GET", "/v1/drafts")


def draft(number: int, revision: int | None) -> Call:
    return Call("GET", f"/v1/drafts/{number}", _given({"revision": revision}))


def save(number: int, revision: int, content: bytes, name: str) -> Call:
    return Call("PUT", f"/v1/drafts/{number}", {"name": name}, content=content, headers={"If-Match": str(revision)})


def act(number: int, action: Action, revision: int | None = None) -> Call:
    return Call("POST", f"/v1/drafts/{number}/{action}", json=None if revision is None else {"revision": revision})


def preview(number: int) -> Call:
    return Call("GET", f"/v1/drafts/{number}/preview")


def comment(number: int, revision: int, options: Mapping[str, Any]) -> Call:
    return Call("POST", f"/v1/drafts/{number}/comments", json={"revision": revision, **_given(options)})


def resolve(number: int, comment: int) -> Call:
    return Call("POST", f"/v1/drafts/{number}/comments/{comment}/resolve")


def feedback(query: str, passage_id: str, kind: Literal["up", "down", "click"]) -> Call:
    return Call("POST", "/v1/feedback", json={"query": query, "id": passage_id, "kind": kind})


def start(kind: str, options: Mapping[str, Any]) -> Call:
    return Call("POST", "/v1/jobs", json={"kind": kind, **_given(options)})


def job(job_id: str, cancel: bool = False) -> Call:
    return Call("DELETE" if cancel else "GET", f"/v1/jobs/{quote(job_id, safe='')}")


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def found_of(data: Mapping[str, Any]) -> Found:
    """Reads the JSON of a search. Fields that a newer server adds are left out."""
    known = {field.name for field in fields(Found)}
    rest = {name: value for name, value in data.items() if name in known - {"hits", "trace", "closest"}}
    trace = tuple(TraceEntry(**_known(TraceEntry, entry)) for entry in data["trace"])
    return Found(hits=tuple(map(hit_of, data["hits"])), trace=trace, **rest)


def hit_of(data: Mapping[str, Any]) -> Hit:
    """Reads the JSON of a hit."""
    given = _known(Hit, data)
    for name in ("matched", "sentence", "lines"):
        given[name] = tuple(given[name]) if given.get(name) else None
    given["headings"] = tuple(given["headings"])
    given["stages"] = {name: StageScore(**place) for name, place in given["stages"].items()}
    return Hit(**given)


def _known(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in data.items() if name in names}


def checked(answer: Any) -> Any:
    """Returns the JSON of an answer. Raises `RefusedError` with the server's sentence."""
    if answer.status_code < 400:
        return answer.json()
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"The server answered {answer.status_code}."
    raise RefusedError(detail, answer.status_code)


def pause(answer: Any, attempt: int) -> float | None:
    """Returns how many seconds to wait before the next attempt; None if there is to be none."""
    if answer.status_code not in BUSY or attempt + 1 >= _TRIES:
        return None
    given = answer.headers.get("retry-after", "")
    return min(10.0, float(given)) if given.isdigit() else 0.5 * 2**attempt


def arguments(url: str, key: str | None, timeout: float) -> dict[str, Any]:
    """Returns the arguments of an httpx client. A key that is not given is read from $SUREFIND_KEY."""
    chosen = os.environ.get("SUREFIND_KEY", "") if key is None else key
    headers = {"Authorization": f"Bearer {chosen}"} if chosen else {}
    return {"base_url": url, "headers": headers, "timeout": timeout, "follow_redirects": False}


def httpx() -> Any:
    try:
        import httpx
    except ModuleNotFoundError:
        raise MissingPartError("The client needs httpx. Install it with: pip install 'surefind[client]'.") from None
    return httpx


Where = Sequence[str]
