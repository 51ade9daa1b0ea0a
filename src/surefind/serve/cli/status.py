"""`surefind status`: what is in the knowledge base."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from surefind.serve.cli._common import HERE, Folder, Json, megabytes, print_json

if TYPE_CHECKING:
    from surefind.status import Status


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def status(kb: Folder = HERE, as_json: Json = False) -> None:
    """Show what is indexed: documents, passages, sources, pipelines, index sizes, skipped files."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        found = base.status()
    if as_json:
        print_json(found)
    else:
        _show(found)


def _show(found: Status) -> None:
    typer.echo(f"Knowledge base  {found.folder}")
    typer.echo(f"Documents       {found.documents} ({found.restricted} restricted to access groups)")
    typer.echo(f"Passages        {found.chunks}, cut by {found.layout}")
    kept = ", ".join(map(str, found.generations))
    typer.echo(f"Generation      {found.generation}, of {found.last_sync} (kept: {kept})")
    for path in found.idle_rules:
        typer.echo(f"Access rule     {path} covers no document: paths are those below the synced folder")
    if found.drafts:
        typer.echo(f"Drafts          {found.drafts}: surefind version list")
    for source in found.sources:
        typer.echo(f"Source          {source}")
    for spec, size in found.indexes.items():
        typer.echo(f"Index           {spec}, {megabytes(size)}")
    for name, pipeline in found.pipelines.items():
        typer.echo(f"Pipeline        {name} = {pipeline}")
    if found.problems:
        typer.echo(f"Skipped         {len(found.problems)} files:")
        for problem in found.problems:
            typer.echo(f"  {problem.path} {problem.reason}")
