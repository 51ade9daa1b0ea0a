"""`surefind history`, `diff` and `rollback`: shows earlier generations of the knowledge base and restores them."""

from __future__ import annotations

from typing import Annotated

import typer

from surefind.base.errors import UsageError
from surefind.doors.cli._common import HERE, Folder, Json, print_json


def register(app: typer.Typer) -> None:
    app.command("history")(history)
    app.command("diff")(diff)
    app.command("rollback")(rollback)


def history(
    document: Annotated[
        str | None, typer.Argument(help="A document, as named in hits; without one, generations are listed.")
    ] = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Show the versions of a document, or all kept generations.

    A generation is the set of document versions that searches see; every change makes a new one. `keep_generations` in
    surefind.toml sets how many are kept.
    """
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        generations = base.generations()
        versions = base.history(document) if document else []
        drafts = base.desk.waiting(document) if document else []
    if document and not versions and not drafts:
        raise UsageError(
            f"There is no document {document!r} in any kept generation. Name it as hits do (surefind search)."
        )
    if as_json:
        print_json(versions if document else generations)
        return
    for draft in drafts:
        typer.echo(f"draft {draft.number:<8} {draft.state:<10} {draft.changed}  {draft.author}  no generation")
    for version in versions:
        inside = f"generations {', '.join(map(str, version.generations))}" if version.generations else "no generation"
        typer.echo(f"version {version.number:<6} {version.state:<10} {version.created}  {version.author}  {inside}")
    for generation in [] if document else reversed(generations):
        typer.echo(
            f"generation {generation.number:<5} {generation.created}  {generation.documents} documents  "
            f"{generation.reason}  {generation.author}"
        )


def diff(
    before: Annotated[
        int | None, typer.Argument(help="The earlier generation.", show_default="the one before AFTER")
    ] = None,
    after: Annotated[int | None, typer.Argument(help="The later generation.", show_default="the current one")] = None,
    document: Annotated[
        str | None, typer.Option("--document", "-d", help="Show the changed lines of this document.")
    ] = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Show which documents changed between two generations, or the changed lines of one document."""
    from surefind.kb import KnowledgeBase
    from surefind.kb.changes import compare, compare_texts

    with KnowledgeBase.open(kb) as base:
        if document:
            lines = compare_texts(base.catalogue, document, before, after)
            same = f"The text of {document} is the same in both generations. Its title or metadata may differ."
            print_json(lines) if as_json else typer.echo("\n".join(lines) or same)
            return
        compared = compare(base.catalogue, before, after)
    if as_json:
        print_json(compared)
        return
    counts = f"{len(compared.added)} added, {len(compared.changed)} changed, {len(compared.removed)} removed"
    typer.echo(f"Generation {compared.before} to {compared.after}: {counts}.")
    for mark, names in (("+", compared.added), ("~", compared.changed), ("-", compared.removed)):
        for name in names:
            typer.echo(f"{mark} {name}")


def rollback(
    generation: Annotated[int, typer.Argument(help="The generation to restore; surefind history lists them.")],
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Restore an earlier generation, at once and without rebuilding anything.

    The restored documents become a new generation, so a rollback can be undone by another one. The next sync brings the
    knowledge base up to date with its folders again.
    """
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        earlier = base.rollback(generation)
        current = base.generations()[-1]
    if as_json:
        print_json(current)
        return
    typer.echo(f"Generation {current.number} shows the {earlier.documents} documents of generation {earlier.number}.")
    typer.echo("The next surefind sync brings the knowledge base up to date with its folders again.")
