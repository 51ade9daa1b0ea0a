"""`surefind version`: drafts, reviews, publishes and retires single documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.serve.cli._common import HERE, Folder, Json, print_json, progress
from surefind.serve.cli._gate import Guard, NoGate
from surefind.serve.cli._money import Budget, Yes, agree

if TYPE_CHECKING:
    from surefind.store.rows import Version

Number = Annotated[int, typer.Argument(help="The number of the version; surefind version list shows it.")]


def register(app: typer.Typer) -> None:
    commands = typer.Typer(help="Draft, review, publish and retire documents.", no_args_is_help=True)
    commands.command("draft")(draft)
    commands.command("review")(review)
    commands.command("publish")(publish)
    commands.command("retire")(retire)
    commands.command("discard")(discard)
    commands.command("list")(list_drafts)
    app.add_typer(commands, name="version")


def draft(
    file: Annotated[Path, typer.Argument(help="The file to read.")],
    document: Annotated[
        str, typer.Option("--document", "-d", help="The document to make a draft of.", show_default="the file's name")
    ] = "",
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Read a file as a draft: a version that searches do not find before it is published."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        _show(base.draft(file, document), as_json)


def review(
    version: Number,
    done: Annotated[bool, typer.Option("--done", help="End the review: the version is a draft again.")] = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Move a draft to review, or back with --done."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        _show(base.review(version, done), as_json)


def publish(
    version: Number,
    no_gate: NoGate = False,
    budget: Budget = None,
    yes: Yes = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Publish a draft: it replaces the previous version, in a new generation."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        agree(base, Guard(base, no_gate).calls(), budget, yes, as_json)
        with progress(quiet=as_json) as report:
            guard = Guard(base, no_gate, report)
            number = base.publish(version, report, guard.gate)
    _show_published("Published", number, guard, as_json)


def _show_published(done: str, number: int, guard: Guard, as_json: bool) -> None:
    if as_json:
        print_json({"generation": number, **guard.as_json()})
        return
    typer.echo(f"{done} in generation {number}.")
    guard.show()


def discard(version: Number, kb: Folder = HERE, as_json: Json = False) -> None:
    """Delete a draft for good."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        base.discard(version)
    print_json({"discarded": version}) if as_json else typer.echo(f"Deleted version {version}.")


def retire(
    document: Annotated[str, typer.Argument(help="The document, as named in hits.")],
    no_gate: NoGate = False,
    budget: Budget = None,
    yes: Yes = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Remove a document from search, in a new generation. Its file is kept; sync reads it again only if it changes."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        agree(base, Guard(base, no_gate).calls(), budget, yes, as_json)
        with progress(quiet=as_json) as report:
            guard = Guard(base, no_gate, report)
            number = base.retire(document, report, guard.gate)
    _show_published("Retired", number, guard, as_json)


def list_drafts(kb: Folder = HERE, as_json: Json = False) -> None:
    """List the drafts and the versions in review."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        waiting = base.drafts()
    if as_json:
        print_json(waiting)
    elif not waiting:
        typer.echo("No drafts. Make one with: surefind version draft FILE.")
    else:
        for version in waiting:
            _show(version, as_json)


def _show(version: Version, as_json: bool) -> None:
    if as_json:
        print_json(version)
    else:
        typer.echo(f"version {version.number:<6} {version.state:<10} {version.document}  {version.author}")
