"""`surefind status`: shows what is in the knowledge base."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from surefind.doors.cli._common import HERE, LEFT_TO_OWNER, Folder, Json, list_problems, megabytes, print_json

if TYPE_CHECKING:
    from surefind.kb.status import Status


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def status(kb: Folder = HERE, as_json: Json = False) -> None:
    """Show what is indexed: documents, sources, models, pipelines, sizes and skipped files."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        current = base.status()
    if as_json:
        print_json(current)
    else:
        _show(current)


def _show(shown: Status) -> None:
    """Prints the status without keys and fingerprints, which are only useful to programs; --json has them."""
    _row("Knowledge base", f"{shown.folder}, {megabytes(shown.size)} on disk")
    _row("Documents", f"{shown.documents} ({shown.restricted} restricted to access groups)")
    _row("Passages", f"{shown.chunks}")
    _row("Layout", shown.layout)
    earlier = [str(number) for number in shown.generations if number != shown.generation]
    _row("Generation", f"{shown.generation}" + (f" (rollback to {', '.join(earlier)} is possible)" if earlier else ""))
    _row("Last sync", shown.last_sync[:19].replace("T", " "))
    for path in shown.idle_rules:
        _row("Access rule", f"{path} matches no document: write paths relative to the synced folder")
    if shown.drafts:
        _row("Drafts", f"{shown.drafts} (list them with: surefind draft list)")
    for source in shown.sources:
        _row("Source", source)
    if shown.backend != "local":
        _row("Backend", f"{shown.backend} (the sizes below are of what is kept here)")
    for spec, size in _indexes(shown.indexes).items():
        _row("Index", f"{spec}, {megabytes(size)}")
    for kind, names in shown.models.items():
        _row("Model", f"{', '.join(names)} ({kind})")
    for name, pipeline in shown.pipelines.items():
        _row("Pipeline", f"{name} = {pipeline}")
    skipped = [one for one in shown.problems if not one.left_to_owner]
    if skipped:
        _row("Skipped", f"{len(skipped)} files:")
        for problem in skipped:
            typer.echo(f"  {problem.path} {problem.reason}")
    left = [one for one in shown.problems if one.left_to_owner]
    list_problems(LEFT_TO_OWNER, left, len(left))


def _row(label: str, text: str) -> None:
    typer.echo(f"{label:<15} {text}")


def _indexes(sizes: dict[str, int]) -> dict[str, int]:
    """Sums sizes by spec, so that two indexes that differ only in the model's weights share a line."""
    found: dict[str, int] = {}
    for spec, size in sizes.items():
        label = spec.partition("@")[0]
        found[label] = found.get(label, 0) + size
    return found
