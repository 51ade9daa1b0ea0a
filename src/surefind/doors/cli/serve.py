"""`surefind serve`: answers over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from surefind.base.disk.folders import nearest
from surefind.base.errors import MissingPartError, NothingIndexedError
from surefind.doors.cli._common import HERE, Folder, Readers


def register(app: typer.Typer) -> None:
    app.command("serve")(serve)


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
