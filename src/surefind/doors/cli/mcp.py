"""`surefind mcp`: gives agents the tools search, ask, read and browse, and those for drafts."""

from __future__ import annotations

from typing import Annotated

import typer

from surefind.base.errors import MissingPartError
from surefind.doors.cli._common import HERE, Folder, Readers


def register(app: typer.Typer) -> None:
    app.command("mcp")(mcp)


def mcp(
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Listen for streamable HTTP on this loopback address, instead of using stdin and stdout.",
            show_default=False,
        ),
    ] = None,
    allow_propose: Annotated[
        bool,
        typer.Option("--allow-propose", help="Also offer the tools for drafts: propose, drafts and review."),
    ] = False,
    groups: Readers = None,
    kb: Folder = HERE,
) -> None:
    """Serve the knowledge base to agents over MCP, the Model Context Protocol.

    An agent client starts this command itself and talks to it on stdin and stdout; `surefind help agents` shows the
    settings of common clients. Everybody who can reach the server reads what the groups of --as may read.
    """
    from surefind.base.access import checked_name
    from surefind.doors.auth.caller import Caller, scopes_of
    from surefind.kb import KnowledgeBase

    try:
        from surefind.doors.mcp.run import serve_http, serve_stdio
        from surefind.doors.mcp.server import make_server
    except ModuleNotFoundError as error:
        raise MissingPartError(
            f"surefind mcp needs the package {error.name}. Install it with pip install 'surefind[mcp]'."
        ) from None

    with KnowledgeBase.open(kb) as base:
        _ = base.catalogue  # a folder without a knowledge base is an error now, not at the first question
        known = frozenset(checked_name(name) for name in groups or [])
        # Agents with other groups are other authors: authors see what they wrote.
        reads = f" as {', '.join(map(repr, sorted(known)))}" if known else ""
        caller = Caller(
            f"agent of {base.author or 'this machine'}{reads}",
            scopes_of(["read", "write"] if allow_propose else ["read"]),
            known,
        )
        server = make_server(base, lambda: caller)
        if http is None:
            serve_stdio(server)
        else:
            serve_http(server, http, lambda url: typer.echo(f"Agents of this machine can use {url}.", err=True))
