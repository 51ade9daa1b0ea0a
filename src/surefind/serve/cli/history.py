"""`surefind history`, `diff` and `rollback`: what the knowledge base said before, and going back to it."""

from __future__ import annotations

from typing import Annotated

import typer

from surefind.serve.cli._common import HERE, Folder, Json, print_json


def register(app: typer.Typer) -> None:
    app.command("history")(history)
    app.command("diff")(diff)
    app.command("rollback")(rollback)


def history(
    document: Annotated[
        str | None, typer.Argument(help="A document, as hits name it. Without: all generations.")
    ] = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Show the versions of a document, or the generations that are kept.

    A generation is a set of published versions. `keep_generations` in surefind.toml says how many are kept.
    """
    from surefind.errors import UsageError
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        generations = base.generations()
        versions = base.history(document) if document else []
    if document and not versions:
        raise UsageError(f"There is no document {document!r}, nor was there in the generations that are kept.")
    if as_json:
        print_json(versions if document else generations)
        return
    for version in versions:
        inside = f"generations {', '.join(map(str, version.generations))}" if version.generations else "no generation"
        typer.echo(f"version {version.number:<6} {version.state:<10} {version.created}  {version.author}  {inside}")
    for one in [] if document else reversed(generations):
        typer.echo(f"generation {one.number:<5} {one.created}  {one.documents} documents  {one.reason}  {one.author}")


def diff(
    before: Annotated[int | None, typer.Argument(help="A generation.", show_default="the one before")] = None,
    after: Annotated[int | None, typer.Argument(help="A later one.", show_default="the current one")] = None,
    document: Annotated[str | None, typer.Option("--document", "-d", help="Show the lines of this document.")] = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Show what changed between two generations: documents added, removed and changed, or the lines of one of them."""
    from surefind.changes import compare, compare_texts
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        if document:
            lines = compare_texts(base.catalogue, document, before, after)
            same = f"The text of {document} is the same in both. Its title or metadata may differ."
            print_json(lines) if as_json else typer.echo("\n".join(lines) or same)
            return
        found = compare(base.catalogue, before, after)
    if as_json:
        print_json(found)
        return
    counts = f"{len(found.added)} added, {len(found.changed)} changed, {len(found.removed)} removed"
    typer.echo(f"Generation {found.before} to {found.after}: {counts}.")
    for mark, names in (("+", found.added), ("~", found.changed), ("-", found.removed)):
        for name in names:
            typer.echo(f"{mark} {name}")


def rollback(
    generation: Annotated[int, typer.Argument(help="The generation to show again: surefind history lists them.")],
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Show what an earlier generation showed, at once and without rebuilding anything.

    It becomes a new generation, so a rollback can be rolled back. The next sync brings in what the folders hold then.
    """
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        earlier = base.rollback(generation)
        current = base.generations()[-1]
    if as_json:
        print_json(current)
        return
    typer.echo(f"Generation {current.number} shows the {earlier.documents} documents of generation {earlier.number}.")
    typer.echo("The next surefind sync brings in what the folders hold then.")
