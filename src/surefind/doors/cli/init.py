"""`surefind init`: writes a surefind.toml with a comment on every setting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefind.base.errors import ConfigError
from surefind.doors.cli._common import HERE, Json, print_json

# Unlike other commands, init does not use the knowledge base of a parent folder: its user wants a new one here.
NewFolder = Annotated[
    Path,
    typer.Option("--kb", envvar="SUREFIND_KB", help="The folder for surefind.toml.", show_default="the current folder"),
]


def register(app: typer.Typer) -> None:
    app.command("init")(init)


def init(
    kb: NewFolder = HERE,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing surefind.toml.")] = False,
    as_json: Json = False,
) -> None:
    """Write a surefind.toml with every setting explained. It is optional: the defaults are the same without it."""
    from surefind.kb.settings.config import FILE_NAME, TEMPLATE

    path = kb.resolve() / FILE_NAME
    if path.exists() and not force:
        raise ConfigError(f"{path} already exists. Edit it, or replace it with: surefind init --force.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TEMPLATE, encoding="utf-8")
    if as_json:
        print_json({"written": str(path)})
    else:
        typer.echo(f"Wrote {path}. Next: surefind sync FOLDER, or surefind serve for the pages.")
