"""`/first-key`: makes the first key, by the link that `surefind serve` prints, and signs its owner in."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import Response

from surefind.doors.auth.caller import UnwritableError
from surefind.doors.auth.first_key import PATH
from surefind.doors.http.service import Served
from surefind.doors.web.page import page
from surefind.doors.web.signing import signed_in

router = APIRouter(include_in_schema=False)
_TOKEN_CHARS = 200
"""Characters of the token in the link, at most."""


@router.get(PATH)
async def form(
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
