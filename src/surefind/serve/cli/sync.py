"""`surefind sync`: bring the knowledge base up to date with its folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.serve.cli._common import HERE, Folder, Json, print_json, progress

if TYPE_CHECKING:
    from surefind.intake import SyncReport

_SHOWN = 10


def register(app: typer.Typer) -> None:
    app.command("sync")(sync)


def sync(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Folders or files to take in. Without any: all that were synced before.")
    ] = None,
    forget: Annotated[list[Path] | None, typer.Option("--forget", help="Drop a folder and its documents.")] = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Read, cut, embed and index what changed; unchanged files cost nothing, deleted ones leave.

    Files that cannot be read are skipped and listed, and the rest goes on. Stop it at any time: the last whole
    state stays, and the next sync goes on from the vectors that were computed.
    """
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base, progress(quiet=as_json) as report:
        result = base.sync(*(paths or []), forget=forget or [], report=report)
    if as_json:
        print_json(result)
    else:
        show(result)


def show(result: SyncReport) -> None:
    changes = f"{result.added} added, {result.changed} changed, {result.removed} removed, {result.unchanged} unchanged"
    typer.echo(f"{changes} in {result.seconds:.1f} s.")
    typer.echo(f"{result.documents} documents, {result.chunks} passages (generation {result.generation}).")
    if result.ignored:
        kinds = ", ".join(f"{suffix} ×{count}" for suffix, count in result.ignored.most_common(5))
        typer.echo(f"{sum(result.ignored.values())} files of other types passed over: {kinds}.")
    if result.problems:
        typer.echo(f"{len(result.problems)} files skipped:")
        for problem in result.problems[:_SHOWN]:
            typer.echo(f"  {problem.path} {problem.reason}")
        if len(result.problems) > _SHOWN:
            typer.echo(f"  … and {len(result.problems) - _SHOWN} more: surefind status lists them all.")
