"""Errors as problem+json (RFC 9457): one clear sentence for the caller, and nothing about the inside of the server."""

from __future__ import annotations

import logging
import sqlite3
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from surefind.base.errors import (
    BudgetError,
    ConflictError,
    DeniedError,
    DiskFullError,
    ForbiddenError,
    GateError,
    LockedError,
    MissingPartError,
    NotBuiltError,
    NotFoundError,
    NothingIndexedError,
    SurefindError,
    UsageError,
)
from surefind.base.redact import without_folders
from surefind.doors.auth.gatekeeper import TooManyError
from surefind.doors.auth.keys import NotAuthenticatedError, UnwritableError
from surefind.doors.http.search_workers import LostWorkerError
from surefind.doors.http.turns import ClosedRequestError, TooOftenError
from surefind.doors.terminal import explained

LOG = logging.getLogger("surefind.serve")
_WAIT = {"Retry-After": "2"}
CLOSED = 499
"""The status of a request whose client has closed the connection."""
_TITLES = {
    400: "Bad request", 401: "Not authenticated", 403: "Forbidden", 404: "Not found", 405: "Method not allowed",
    409: "Conflict", 410: "Gone", 411: "Length required", 413: "Too large", 415: "Unsupported media type",
    421: "Wrong host", 422: "Invalid request", 429: "Too many requests", CLOSED: "Client closed the request",
    500: "Server error", 503: "Not ready", 504: "Timed out", 507: "Cannot be written",
}  # fmt: skip
_STATUS: list[tuple[type[SurefindError], int]] = [
    (ClosedRequestError, CLOSED),
    (TooManyError, 429),
    (TooOftenError, 429),
    (NotAuthenticatedError, 401),
    (ForbiddenError, 403),
    (NotFoundError, 404),
    (ConflictError, 409),
    (UsageError, 400),
    (LockedError, 409),
    (GateError, 409),
    (BudgetError, 429),
    (NothingIndexedError, 503),
    (NotBuiltError, 503),
    (MissingPartError, 503),
    (LostWorkerError, 503),
    (UnwritableError, 507),
    (DiskFullError, 507),
    (DeniedError, 507),
]
_READY = "The knowledge base is not ready for this request. Try again soon."
_EMPTY = "There are no documents to search. Fill the knowledge base, or try again when its first sync has ended."
_BROKEN = "The server could not answer. Its log has the reason under this request id."
_NOT_SAVED = "{} Nothing was saved, and nothing is lost. Tell whoever runs it."
_DISK: dict[type[SurefindError], str] = {
    DiskFullError: _NOT_SAVED.format("The disk of the server is full."),
    DeniedError: _NOT_SAVED.format("The server cannot write to its disk."),
}
OTHER_NAMES = ("q", "question")
"""What other programs call the text of a search."""
CALLED_QUERY = "There is no {}: the text of a search is called query."


def problem(
    status: int, detail: str, request_id: str = "", headers: dict[str, str] | None = None, **more: Any
) -> Response:
    """Returns a problem+json response."""
    title = _TITLES.get(status, "Error")
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    if request_id:
        body["request_id"] = request_id
    return JSONResponse(body, status, headers, "application/problem+json")


def handle_problems(app: FastAPI) -> None:
    """Makes every error of the routes a problem+json response."""

    @app.exception_handler(SurefindError)
    async def known(request: Request, error: SurefindError) -> Response:
        return surefind_problem(error, request.state.id)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        wrong = [{"where": ".".join(map(str, one["loc"])), "message": one["msg"]} for one in error.errors()[:20]]
        first = f"{wrong[0]['where']}: {wrong[0]['message']}." if wrong else "The request is invalid."
        for one in error.errors():
            if one["type"] == "extra_forbidden" and one["loc"][-1] in OTHER_NAMES:
                first = CALLED_QUERY.format(one["loc"][-1])
        return problem(422, first, request.state.id, errors=wrong)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        return problem(error.status_code, str(error.detail), request.state.id, dict(error.headers or {}))

    @app.exception_handler(OSError)
    @app.exception_handler(sqlite3.Error)
    async def disk(request: Request, error: OSError | sqlite3.Error) -> Response:
        known = explained(error)
        if not isinstance(known, DiskFullError | DeniedError):
            raise error
        return surefind_problem(known, request.state.id)

    @app.exception_handler(Exception)
    async def failed(request: Request, _: Exception) -> Response:
        return problem(500, _BROKEN, request.state.id)


def surefind_problem(error: SurefindError, request_id: str) -> Response:
    """Returns the response for an error of Surefind. Messages about the server's own state are only logged. Others
    name files, and these without their folders."""
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    if isinstance(error, ConflictError):
        return problem(status, without_folders(str(error)), request_id, newer=error.newer)
    headers = _WAIT if status in (409, 429, 503) else {"WWW-Authenticate": "Bearer"} if status == 401 else None
    if status >= 500:
        LOG.error("request %s: %s: %s", request_id, type(error).__name__, error)
    unready = _EMPTY if isinstance(error, NothingIndexedError) else _READY
    detail = {409: _locked(error), 500: _BROKEN, 503: unready}.get(status, _DISK.get(type(error), str(error)))
    return problem(status, without_folders(detail), request_id, headers)


def _locked(error: SurefindError) -> str:
    """The message of a lock names a process of the server."""
    return "Another change is being written. Try again soon." if isinstance(error, LockedError) else str(error)
