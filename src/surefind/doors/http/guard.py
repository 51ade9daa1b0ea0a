"""What happens to every request, before and after its route: an id, limits, checks of its origin, its turn, safe
headers, a count; and who calls, before a body is read or a stream begins. It is plain ASGI, because Starlette's own
middleware costs a task for each request."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from surefind.base import access
from surefind.base.errors import SurefindError
from surefind.doors.http.metrics import Metrics
from surefind.doors.http.problems import CALLED_QUERY, CLOSED, LOG, OTHER_NAMES, problem, surefind_problem
from surefind.doors.http.turns import ClosedRequestError, LongRequests, Turns, give_back_soon
from surefind.kb.settings.serve import ServeSettings

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SAFE = ("GET", "HEAD", "OPTIONS")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""What a page of this server may do: nothing but show itself. Documents are data and never pages."""
_STREAMS = re.compile(r"/v1/jobs/[^/]+/events|/v1/ask|/mcp")
"""Routes that may send an answer bit by bit. Events of jobs have no time limit."""
_ASKS = re.compile(r"/(v1/(search|ask|facets|passages/[^/]+))?|/ask|/sure|/documents/.+")
"""Routes that take a query: a person may have called it otherwise."""
_ANSWERS = re.compile(r"/v1/ask|/ask|/mcp")
"""Routes that may wait for a language model."""
_SIGN_IN = "/sign-in"
"""Where callers say who they are, in the body of a request."""
_SIGN_OUT = "/sign-out"
"""Where callers leave, also those whose key no longer holds."""
_ALIVE = "/healthz"
"""Answers however many requests wait."""
_UPLOADS = re.compile(r"/v1/documents|/v1/drafts/\d+|/drafts/(new|preview|chunks|\d+/(save|upload))")
_FORM_BYTES = 1 << 18
"""Bytes that the form around an uploaded file may have."""
_DATA = re.compile(r"/(v1|mcp|metrics|healthz|readyz|openapi\.json|static)(/|$)")
"""Routes that are not pages: their errors are JSON whatever a caller accepts."""
_UNASKED = (404, 405, 422)
"""Errors of requests for which no route asked who calls."""
Present = Callable[[dict[str, Any], str, bool, access.Caller | None], Awaitable[Response]]
"""Shows an error on a page: what the error is, the address that was asked for, whether a fragment was, who asked."""
AsPage = Callable[[dict[str, Any]], Awaitable[Response]]
Admit = Callable[[Request, access.Scope], Awaitable[access.Caller]]
"""Returns who calls; raises an error if the caller is unknown, lacks the scope or calls too often."""
Name = Callable[[Request], str]
"""Returns whose turn a request takes, without asking whether the caller is let in."""
_SEARCH = "/v1/search"
_KEPT_BYTES = 1 << 16
"""Bytes of a body that are kept while its request waits for its turn, at most."""


class Guard:
    """Wraps the application."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServeSettings,
        hosts: Collection[str],
        upload: int,
        metrics: Metrics,
        present: Present,
        reading: float,
        admit: Admit,
        name: Name,
    ) -> None:
        """`upload` is the largest size of an uploaded file in bytes, and `reading` the seconds that reading it may
        take."""
        self._app = app
        self._settings = settings
        self._hosts = frozenset(name.lower() for name in hosts)
        self._upload = upload
        self._metrics = metrics
        self._present = present
        self._reading = reading
        self._admit = admit
        self._streams = LongRequests("streams", "streams_per_caller", settings.streams_per_caller, settings.streams)
        self._running = 0
        self._name = name
        threads = settings.threads
        self._turns = self._places("requests that wait", threads + 1, max(1, threads // 2))
        self._searches = self._places("searches that wait", 4 * threads, 2 * threads)
        self._checks = self._places("health checks that wait", threads, 1)

    def _places(self, what: str, places: int, share: int) -> Turns:
        """Returns places in the event loop. Nobody fills the queue: one caller may have half of it."""
        queue = self._settings.queue
        return Turns(what, places, share, "queue", max(1, queue // 2), queue)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _ID.fullmatch(given) else f"{random.getrandbits(64):016x}"
        scope.setdefault("state", {})["id"] = request_id
        counted = _Counted(send, request_id, self._as_page(scope, headers))
        began = time.perf_counter()
        waits = not _is_stream(scope)
        self._running += waits
        self._metrics.running.inc()
        try:
            await self._answer(scope, headers, receive, counted, request_id)
        finally:
            self._running -= waits
            self._metrics.running.dec()
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.count(scope["method"], route, counted.status, time.perf_counter() - began)

    async def _answer(self, scope: Scope, headers: Headers, receive: Receive, send: _Counted, request_id: str) -> None:
        refused = self._refusal(scope, headers, request_id)
        if refused is not None:
            await refused(scope, receive, send)
            return
        most = self._limit(scope)
        patience = self._patience(scope)
        try:
            async with asyncio.timeout(patience):
                incoming = _Incoming(receive)
                async with self._turns_of(scope).take(self._name(Request(scope)), incoming.gone) as place:
                    scope["state"]["place"] = place
                    with await self._admission(scope, headers):
                        await self._app(scope, _limited(incoming, most), send)
        except TimeoutError:
            await send.otherwise(problem(504, "The request took too long.", request_id), scope, receive)
        except ClosedRequestError:
            send.status = CLOSED  # nobody reads an answer
        except SurefindError as error:
            await send.otherwise(surefind_problem(error, request_id), scope, receive)
        except Exception:
            LOG.exception("request %s failed", request_id)
            detail = "The server could not answer. Its log has the reason under this request id."
            await send.otherwise(problem(500, detail, request_id), scope, receive)

    def _turns_of(self, scope: Scope) -> Turns:
        """Returns the places in the event loop. Searches and health checks have their own, so that neither waits behind
        the pages of the same caller."""
        if scope["path"] == _ALIVE:
            return self._checks
        return self._searches if scope["path"] == _SEARCH else self._turns

    async def _admission(self, scope: Scope, headers: Headers) -> AbstractContextManager[None]:
        """Finds out who calls before a body is read, anything is changed or a stream begins: a stranger costs neither
        memory nor disk. Returns what holds the place of a stream."""
        streams = _is_stream(scope)
        plain = (scope["method"] in _SAFE or scope["path"] == _SIGN_OUT) and not _has_body(headers)
        if not streams and (plain or scope["path"] == _SIGN_IN):
            return nullcontext()
        caller = await self._admit(Request(scope), "write" if _UPLOADS.fullmatch(scope["path"]) else "read")
        if not streams:
            return nullcontext()
        give_back_soon(Request(scope))  # a stream may wait for hours
        return self._streams.held_by(caller.name)

    def _as_page(self, scope: Scope, headers: Headers) -> AsPage | None:
        """Returns what shows an error as a page; None if the caller is no browser that asks for one."""
        fragment = wants_fragment(headers)
        if _DATA.match(scope["path"]) or not (fragment or "text/html" in headers.get("accept", "")):
            return None
        query = scope["query_string"].decode("latin-1")
        asked = scope["path"] + (f"?{query}" if query else "") if scope["method"] == "GET" else "/"

        async def shown(error: dict[str, Any]) -> Response:
            return await self._present(error, asked, fragment, await self._visitor(scope, error["status"]))

        return shown

    async def _visitor(self, scope: Scope, status: int) -> access.Caller | None:
        """Returns who sees an error, so that its page has their menu; None if that is not known."""
        if "caller" not in scope["state"] and status in _UNASKED:
            with suppress(SurefindError):
                return await self._admit(Request(scope), "read")
        known: access.Caller | None = scope["state"].get("caller")
        return known

    def _refusal(self, scope: Scope, headers: Headers, request_id: str) -> Response | None:
        """Returns the answer to a request that no route should see; None if it may pass."""
        waits = not _is_stream(scope) and scope["path"] != _ALIVE
        if waits and self._running > self._settings.queue:
            wait = {"Retry-After": "1"}
            return problem(503, "The server has too many requests. Try again soon.", request_id, wait)
        if self._hosts and _host(headers.get("host", "")) not in self._hosts:
            # A page of another site may have pointed its own name at this machine (DNS rebinding).
            return problem(421, "This server does not answer to that host name. See allowed_hosts.", request_id)
        if scope["method"] not in _SAFE and not same_origin(headers):
            return problem(403, "Requests of other sites are refused.", request_id)
        for name in OTHER_NAMES if _ASKS.fullmatch(scope["path"]) else ():
            if name in parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True):
                return problem(422, CALLED_QUERY.format(name), request_id)  # a route would not look at it
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length[:20]) > self._limit(scope):
            return problem(413, f"The body may have {self._limit(scope):,} bytes at most.", request_id)
        return None

    def _patience(self, scope: Scope) -> float | None:
        """Returns how many seconds a request may take. A file is read under limits of its own (`max_seconds`)."""
        if _ANSWERS.fullmatch(scope["path"]):
            return self._settings.answer_timeout
        if _is_stream(scope):
            return None
        uploads = scope["method"] not in _SAFE and _UPLOADS.fullmatch(scope["path"])
        return self._settings.timeout + (self._reading if uploads else 0)

    def _limit(self, scope: Scope) -> int:
        return self._upload + _FORM_BYTES if _UPLOADS.fullmatch(scope["path"]) else self._settings.max_body_kb * 1024


class _Counted:
    """Sends a response with the safe headers, and remembers its status. A page shows an error in its own way."""

    def __init__(self, send: Send, request_id: str, as_page: AsPage | None = None) -> None:
        self._send = send
        self._id = request_id
        self._as_page = as_page
        self._held = False
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if self._held:  # the body of an error: problem+json comes in one piece
            self._held = False
            assert self._as_page is not None
            shown = await self._as_page(json.loads(message["body"]))
            await self._start({
                "type": "http.response.start", "status": shown.status_code, "headers": shown.raw_headers
            })  # fmt: skip
            await self._send({"type": "http.response.body", "body": shown.body})
            return
        if self._as_page and message["type"] == "http.response.start" and _is_problem(message):
            self.status, self._held = message["status"], True
            return
        await self._start(message)

    async def _start(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self._id
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)

    async def otherwise(self, response: Response, scope: Scope, receive: Receive) -> None:
        """Sends a response in place of one that failed, unless that one has begun."""
        if not self.status:
            await response(scope, receive, self)


class _Incoming:
    """What a client sends. While a request waits for its turn, it is read only as far as it takes to learn that the
    client has gone."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._kept: deque[Message] = deque()

    async def __call__(self) -> Message:
        return self._kept.popleft() if self._kept else await self._receive()

    async def gone(self) -> None:
        """Ends when the client has closed the connection. The end of a longer body is not waited for."""
        size = 0
        while (message := await self._receive())["type"] != "http.disconnect":
            self._kept.append(message)
            size += len(message.get("body", b""))
            if size > _KEPT_BYTES:
                await asyncio.Event().wait()


def wants_fragment(headers: Headers) -> bool:
    """Returns whether htmx asks for a part of the page that is open. When a visitor goes back to a page that it does
    not remember, it asks for all of that page."""
    return headers.get("hx-request") == "true" and headers.get("hx-history-restore-request") != "true"


def _is_stream(scope: Scope) -> bool:
    return _STREAMS.fullmatch(scope["path"]) is not None


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0").strip("0") != ""


def _is_problem(message: Message) -> bool:
    about = Headers(raw=message["headers"]).get("content-type")
    return about == "application/problem+json" and message["status"] != CLOSED  # which nobody reads


def _limited(receive: Receive, most: int) -> Receive:
    """Counts the bytes of a body that came without its length."""
    read = 0

    async def counted() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > most:
            raise HTTPException(413, f"The body may have {most:,} bytes at most.")
        return message

    return counted


def _host(given: str) -> str:
    """The name in a Host header, without the port."""
    name = given.lower()
    return name[: name.find("]") + 1].strip("[]") if name.startswith("[") else name.partition(":")[0]


def same_origin(headers: Headers) -> bool:
    """Returns whether a request may come from a page of this server, or from no page at all. What changes something, or
    is kept, must."""
    site = headers.get("sec-fetch-site")
    if site is not None:  # browsers send it themselves, and `Origin: null` beside it, because we ask for no referrer
        return site in ("none", "same-origin")
    origin = headers.get("origin", headers.get("referer"))
    if origin is None:
        return True
    try:
        netloc: Any = urlsplit(origin).netloc
    except ValueError:
        return False
    return bool(netloc) and netloc.lower() == headers.get("host", "").lower()
