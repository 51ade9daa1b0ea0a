"""`surefind serve`: answers over HTTP.

`surefind mcp`: gives agents the tools search, ask, read and browse, and those for drafts.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from surefind.base.disk.sealed import nearest
from surefind.base.errors import MissingPartError, NothingIndexedError
from surefind.doors.cli._common import HERE, Folder, Readers


def register(program: typer.Typer) -> None:
    program.command("serve")(serve)
    program.command("mcp")(mcp)


def serve(
    host: Annotated[
        str | None, typer.Option("--host", help="The address to listen on.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="The port; 0 takes a free one.", show_default="8080")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            help="Processes that search for many callers; 0 searches in the process of the server.",
            show_default="one for each core",
        ),
    ] = None,
    groups: Readers = None,
    kb: Folder = HERE,
) -> None:
    """Serve searches, documents, uploads and jobs over HTTP. /docs describes the API.

    Without API keys (surefind keys) and without [serve.oidc] in surefind.toml, the server is open, and listens on this
    machine only. It prints a link that makes the first key.
    """
    from surefind.kb import KnowledgeBase

    try:
        from surefind.doors.server import serve as run
        from surefind.kb.settings.serve import serve_settings
    except ModuleNotFoundError as error:
        raise MissingPartError(
            f"The server needs {error.name}. Install it with: pip install 'surefind[serve]'."
        ) from None

    options = {"host": host, "port": port, "workers": workers}
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    with KnowledgeBase.open(kb) as base:
        try:
            base.reader()  # what is wrong with a knowledge base is reported before the server starts
        except NothingIndexedError:
            if nearest(kb) is None:
                raise
            # somebody made it (surefind init), and the pages lead to its first documents
        run(base, serve_settings(base.settings.serve, **given), groups or [], lambda text: typer.echo(text, err=True))


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
    from surefind.base.access import Caller, checked_name, scopes_of
    from surefind.kb import KnowledgeBase

    try:
        from surefind.doors.mcp.server import make_server, serve_http, serve_stdio
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
