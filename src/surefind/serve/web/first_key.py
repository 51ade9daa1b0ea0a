"""`/first-key`: makes the first key, by the link that `surefind serve` prints, and signs its owner in."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import Response

from surefind.serve.auth.caller import UnwritableError
from surefind.serve.auth.first_key import PATH
from surefind.serve.http.service import Served
from surefind.serve.web.page import page
from surefind.serve.web.signing import signed_in

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
    return page(caller, "first_key.html", title="Make the first key", here="", token=token)


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
    shown = page(owner, "settings_key.html", title="Your key", here="settings", key=key, text=text, first=True)
    try:
        return await signed_in(request, service, owner, text, shown)
    except UnwritableError:  # the key is made, so it must be shown; signing in says what is wrong
        return page(None, "settings_key.html", title="Your key", here="", key=key, text=text, first=False)
