"""`surefind trust`: confirms the servers that may receive text and keys."""

from __future__ import annotations

from typing import Annotated

import typer

from surefind.base.errors import UsageError
from surefind.doors.cli._common import Json, print_json

Host = Annotated[str, typer.Argument(help="The server, such as llm.example.com.", show_default="list the servers")]
Key = Annotated[
    list[str] | None,
    typer.Option("--key", help="An environment variable whose key the server may receive, too; may be repeated."),
]


def register(app: typer.Typer) -> None:
    app.command("trust")(trust)


def trust(
    host: Host = "",
    key: Key = None,
    forget: Annotated[bool, typer.Option("--forget", help="Forget the server and its keys.")] = False,
    as_json: Json = False,
) -> None:
    """Confirm that a server may receive text from your documents; without HOST, list the confirmed servers.

    A surefind.toml can name any server and any key, and you may not have written it. So a server that is not known gets
    nothing before you confirm it, once. This machine and the servers of known services need no confirmation.
    """
    from surefind.engine.net import trust as servers

    if not host and (forget or key):
        raise UsageError("Name the server: surefind trust HOST.")
    done = ""
    if host and forget:
        done = f"Forgot {servers.forget(host)}."
    elif host:
        name = servers.confirm(host, key or ())
        done = f"{name} may receive text from your documents{_keys(servers.remembered()[name], ' and the keys in ')}."
    if as_json:
        print_json({"file": servers.memory(), "hosts": servers.remembered()})
    elif done:
        typer.echo(done)
    else:
        for name, keys in servers.remembered().items():
            typer.echo(name + _keys(keys, "   keys: "))
        if not servers.remembered():
            typer.echo("No servers are confirmed. Confirm one with: surefind trust HOST.")


def _keys(keys: tuple[str, ...], before: str) -> str:
    return before + ", ".join(keys) if keys else ""
