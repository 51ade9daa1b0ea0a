"""`/settings`: surefind.toml, keys, models and status, for admins.

A server without keys does not know who calls, so nobody is an admin there, and the page does not make the first key:
every user of the machine could make themselves one. It says which link or command makes it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import Response

from surefind.base.access import SCOPES, Caller
from surefind.base.errors import ConfigError, NotBuiltError, NothingIndexedError, UsageError
from surefind.doors.auth.keys import Key, Keys
from surefind.doors.http.service import Served, Service
from surefind.doors.web.page import back_to, page
from surefind.kb.adoption import SettingsView, Undoable, hidden, save_settings, shown_settings, undo_change, undoable
from surefind.kb.model_health import model_health
from surefind.kb.status import Status

router = APIRouter(include_in_schema=False)
_ROLES = {
    "read": "search, ask, read documents",
    "write": "read, upload and edit drafts, give feedback, read the sources again",
    "review": "read and write, publish drafts, label, keep questions, run benchmarks, adopt a configuration",
    "admin": "everything, these settings included",
}


@dataclass(frozen=True)
class Board:
    """What the page shows."""

    shown: SettingsView
    keys: list[Key]
    status: Status | None
    undo: Undoable | None
    """The last change, if it can be undone."""
    waiting: str
    """Why the settings in the file are not used yet; empty if they are."""


@router.get("/settings")
async def settings(request: Request, service: Served, saved: Annotated[str, Query(max_length=20)] = "") -> Response:
    caller = await service.caller(request, "read")
    if service.gatekeeper.lets_everybody_in:
        return await service.work(
            lambda: page(caller, "settings_open.html", title="Settings", here="settings", roles=_ROLES)
        )
    caller.require("admin")
    return await _page(service, caller, saved=saved)


async def _page(
    service: Service,
    caller: Caller,
    status: int = 200,
    saved: str = "",
    text: str = "",
    mark: str = "",
    wrong: str = "",
) -> Response:
    """`text` and `mark` are what was typed, and which file it was made of: another one must not be overwritten."""

    def read() -> Response:
        board = _board(service)
        return page(
            caller, "settings.html", status, title="Settings", here="settings", board=board, roles=_ROLES, saved=saved,
            text=text or board.shown.text, mark=mark or board.shown.mark, wrong=wrong, now=time.time(),
        )  # fmt: skip

    return await service.work(read)


def _board(service: Service) -> Board:
    kb = service.kb
    try:
        status = kb.status()
    except NothingIndexedError:
        status = None
    undo = undoable(kb.folder, edits=True)
    return Board(shown_settings(kb.folder), Keys(kb.data).list(), status, undo, _reloaded(service))


def _reloaded(service: Service) -> str:
    """Uses the settings of the file. Returns why they are not used yet."""
    try:
        service.reload()
    except (ConfigError, NotBuiltError) as error:
        return hidden(str(error))
    return ""


@router.post("/settings")
async def save(
    request: Request, service: Served, mark: Annotated[str, Form(max_length=64)], text: Annotated[str, Form()] = ""
) -> Response:
    """Writes surefind.toml. If it is not valid, the page shows what was typed and what is wrong."""
    caller = await service.caller(request, "admin")

    def write() -> None:
        save_settings(service.kb.folder, text, mark)
        _reloaded(service)  # new access rules apply at once; the page says what the other settings wait for

    try:
        await service.write(write)
    except ConfigError as error:
        return await _page(service, caller, 400, text=text, mark=mark, wrong=hidden(str(error)))
    return back_to(request, "/settings?saved=settings")


@router.post("/settings/undo")
async def undo(request: Request, service: Served, mark: Annotated[str, Form(max_length=64)] = "") -> Response:
    """Restores surefind.toml as it was before the last change, if that is the change that the visitor saw."""
    await service.caller(request, "admin")

    def write() -> None:
        undo_change(service.kb, True, mark)
        _reloaded(service)

    await service.write(write)
    return back_to(request, "/settings?saved=undone")


@router.post("/settings/sync")
async def sync(request: Request, service: Served, folder: Annotated[str, Form(max_length=1_000)] = "") -> Response:
    """Reads the sources again, or a new folder, and builds what the settings need."""
    caller = await service.caller(request, "admin")
    added = folder.strip()
    options, after = ({"folder": added}, "/") if added else ({}, "/settings")
    job = await service.jobs.start(caller, "sync", options, added, after)
    return back_to(request, f"/jobs/{job.id}")


@router.get("/settings/models")
async def models(request: Request, service: Served) -> Response:
    """Whether the models can be used. No token is spent."""
    caller = await service.caller(request, "admin")

    def read() -> Response:
        return page(caller, "settings_models.html", title="Models", here="settings", models=model_health(service.kb))

    return await service.work(read)


# ---------------------------------------------------------------- keys


@router.post("/settings/keys")
async def create_key(
    request: Request,
    service: Served,
    name: Annotated[str, Form(max_length=200)],
    scope: Annotated[list[str] | None, Form(max_length=len(SCOPES))] = None,
    groups: Annotated[str, Form(max_length=2_000)] = "",
    days: Annotated[str, Form(max_length=10)] = "",
) -> Response:
    """Makes a key, and shows it once. It is in no address and is not stored."""
    caller = await service.caller(request, "admin")
    if days and not (days.isascii() and days.strip().isdigit()):
        raise UsageError(f"Days must be a whole number, not {days!r}.")
    listed = [group for group in groups.replace("\r", "").replace("\n", ",").split(",") if group.strip(" ")]
    made, text = await service.write(
        lambda: Keys(service.kb.data).create(name, scope or [], listed, float(days) if days else None)
    )
    return await service.work(
        lambda: page(caller, "settings_key.html", title="New key", here="settings", key=made, text=text, first=False)
    )


@router.post("/settings/keys/revoke")
async def revoke_key(
    request: Request, service: Served, key_id: Annotated[str, Form(alias="id", max_length=64)]
) -> Response:
    """Revokes a key, at once: it waits for no other change."""
    await service.caller(request, "admin")
    await service.work(lambda: Keys(service.kb.data).revoke(key_id))
    return back_to(request, "/settings?saved=revoked#keys")
