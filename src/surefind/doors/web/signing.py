"""`/sign-in`, `/sign-out`, and the files that every page uses.

`/first-key`: makes the first key, by the link that `surefind serve` prints, and signs its owner in.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from surefind.base.access import Caller
from surefind.doors.auth.keys import PATH, NotAuthenticatedError, UnwritableError
from surefind.doors.auth.sessions import COOKIE, LASTS
from surefind.doors.http.service import Served, Service
from surefind.doors.web.page import local_path, page, static_file

router = APIRouter(include_in_schema=False)
_FORWARDED = re.compile(r'(?:^|;)\s*proto="?https(?:"|;|\s|$)', re.IGNORECASE)
"""What a proxy writes into the header Forwarded (RFC 7239) if the visitor's connection has TLS."""
_MAX_KEY_CHARS = 20_000


@router.get("/sign-in")
async def form(request: Request, service: Served, then: Annotated[str, Query(alias="next")] = "/") -> Response:
    return await service.work(lambda: _form(then, ""))


def _form(then: str, wrong: str, status: int = 200) -> Response:
    return page(None, "sign_in.html", status, title="Sign in", here="", next=local_path(then), wrong=wrong)


@router.post("/sign-in")
async def sign_in(
    request: Request,
    service: Served,
    key: Annotated[str, Form(max_length=_MAX_KEY_CHARS)] = "",
    then: Annotated[str, Form(alias="next")] = "/",
) -> Response:
    """Begins a session if the key or token is right."""
    given = key.strip()
    try:
        caller = await service.identify(request, f"Bearer {given}")
    except NotAuthenticatedError as error:
        said = str(error)
        return await service.work(lambda: _form(then, said, 401))
    service.rate.check(caller.name)
    return await signed_in(request, service, caller, given, RedirectResponse(local_path(then), 303))


async def signed_in(request: Request, service: Service, caller: Caller, credential: str, answer: Response) -> Response:
    """Begins a session with a key or token of a caller, who was checked. Returns the answer, with its cookie."""
    name, secure = await service.work(lambda: service.sessions.begin(caller.name, credential)), _has_tls(request)
    answer.set_cookie(COOKIE, name, max_age=LASTS, httponly=True, samesite="lax", secure=secure, path="/")
    return answer


def _has_tls(request: Request) -> bool:
    """Returns whether the visitor's connection has TLS: to this server, or to a proxy, which says so in a header. A
    visitor who sends the header without a proxy gets a cookie that their browser keeps to TLS: no one else is affected,
    so the header needs no trust."""
    forwarded = request.headers.get("forwarded", "").partition(",")[0]
    named = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return "https" in (request.url.scheme, named) or _FORWARDED.search(forwarded) is not None


@router.post("/sign-out")
async def sign_out(request: Request, service: Served) -> Response:
    cookie = request.cookies.get(COOKIE)
    await service.work(lambda: service.sessions.end(cookie))
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer


@router.get("/static/{name}")
async def static(name: str) -> Response:
    return static_file(name)


_TOKEN_CHARS = 200
"""Characters of the token in the link, at most."""


@router.get(PATH)
async def ask_for_name(
    request: Request, service: Served, token: Annotated[str, Query(max_length=_TOKEN_CHARS)] = ""
) -> Response:
    """Asks for a name. Opening the link changes nothing, so that a program that looks at links does not use it up."""
    caller = await service.caller(request, "read")
    service.first_key.check(token)
    return await service.work(lambda: page(caller, "first_key.html", title="Make the first key", here="", token=token))


@router.post(PATH)
async def create(
    request: Request,
    service: Served,
    token: Annotated[str, Form(max_length=_TOKEN_CHARS)] = "",
    name: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    """Makes the key, shows it once, and signs the visitor in."""
    await service.caller(request, "read")
    key, text = await service.write(lambda: service.first_key.create(token, name))
    owner = await service.identify(request, f"Bearer {text}")
    about: dict[str, Any] = {"title": "Your key", "key": key, "text": text}
    shown = await service.work(lambda: page(owner, "settings_key.html", here="settings", first=True, **about))
    try:
        return await signed_in(request, service, owner, text, shown)
    except UnwritableError:  # the key is made, so it must be shown; signing in says what is wrong
        return await service.work(lambda: page(None, "settings_key.html", here="", first=False, **about))
