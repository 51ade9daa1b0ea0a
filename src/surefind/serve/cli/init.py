"""`surefind init`: write a surefind.toml in which every line is explained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefind.serve.cli._common import HERE, Json, print_json

# Not that of a parent: whoever writes settings here wants a knowledge base here.
NewFolder = Annotated[
    Path,
    typer.Option("--kb", envvar="SUREFIND_KB", help="The folder to write it into.", show_default="the current folder"),
]


def register(app: typer.Typer) -> None:
    app.command("init")(init)


def init(
    kb: NewFolder = HERE,
    force: Annotated[bool, typer.Option("--force", help="Replace a surefind.toml that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Write surefind.toml here, every line explained. Optional: without it the same defaults hold."""
    from surefind.config import FILE_NAME, TEMPLATE
    from surefind.errors import ConfigError

    path = kb.resolve() / FILE_NAME
    if path.exists() and not force:
        raise ConfigError(f"{path} is there already. Edit it, or replace it with: surefind init --force.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TEMPLATE, encoding="utf-8")
    if as_json:
        print_json({"written": str(path)})
    else:
        typer.echo(f"Wrote {path}. Next: surefind sync FOLDER.")
