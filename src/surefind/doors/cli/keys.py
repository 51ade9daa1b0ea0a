"""`surefind keys`: makes, lists and revokes API keys."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from surefind.doors.cli._common import HERE, Folder, Json, print_json
from surefind.doors.cli._groups import command_group


def register(app: typer.Typer) -> None:
    commands = command_group("Make, list and revoke API keys for surefind serve.")
    commands.command("create")(create)
    commands.command("list")(list_keys)
    commands.command("revoke")(revoke)
    app.add_typer(commands, name="keys")


def create(
    name: Annotated[str, typer.Argument(help="Who gets the key, such as chatbot.")],
    scopes: Annotated[
        list[str] | None,
        typer.Option("--scope", help="read, write, review or admin. May be repeated.", show_default="read"),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--as", help="An access group of the caller; '*' reads everything. May be repeated."),
    ] = None,
    days: Annotated[float | None, typer.Option("--days", help="The key expires after this many days.")] = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Make an API key, and print it once. Only its hash is stored."""
    from surefind.doors.auth.keys import Keys
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        _ = base.catalogue  # a key for a knowledge base that does not exist is a mistake
        key, text = Keys(base.data).create(name, scopes or ["read"], groups or [], days)
    if as_json:
        print_json({**_row(key), "key": text})
    else:
        typer.echo(text)
        typer.echo(f"This is the key of {key.name} ({_rights(key)}). It is not shown again.", err=True)


def list_keys(kb: Folder = HERE, as_json: Json = False) -> None:
    """List the API keys, without their secrets."""
    from surefind.doors.auth.keys import Keys
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        known = Keys(base.data).list()
    if as_json:
        print_json([_row(key) for key in known])
    elif not known:
        typer.echo("No API keys. Make one with: surefind keys create NAME.")
    for key in [] if as_json else known:
        typer.echo(f"{key.id}  {key.name}  {_rights(key)}  {_state(key)}")


def revoke(
    name: Annotated[str, typer.Argument(help="The name or the id of the key.")],
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Revoke an API key. Running servers refuse it from the next request on."""
    from surefind.doors.auth.keys import Keys
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        key = Keys(base.data).revoke(name)
    print_json(_row(key)) if as_json else typer.echo(f"Revoked {key.name} ({key.id}).")


def _row(key: Any) -> dict[str, Any]:
    return {
        "id": key.id, "name": key.name, "scopes": key.scopes, "groups": key.groups, "created": key.created,
        "expires": key.expires, "revoked": key.revoked,
    }  # fmt: skip


def _rights(key: Any) -> str:
    groups = f" as {', '.join(key.groups)}" if key.groups else ", public documents"
    return ", ".join(key.scopes) + groups


def _state(key: Any) -> str:
    if key.revoked is not None:
        return "revoked"
    if key.expires is None:
        return "in use"
    day = time.strftime("%Y-%m-%d", time.localtime(key.expires))
    return f"until {day}" if key.live(time.time()) else f"expired on {day}"
