"""`surefind access`: shows who may read which document, and checks that somebody decided it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from surefind.base.errors import UsageError
from surefind.doors.cli._common import HERE, LEFT_TO_OWNER, Folder, Json, list_problems, print_json

if TYPE_CHECKING:
    from surefind.kb.decisions import Decision

_CHECK = "check"


def register(app: typer.Typer) -> None:
    app.command("access")(access)


def access(
    action: Annotated[
        str, typer.Argument(help="`check` lists the documents without a decision; without it, all are listed.")
    ] = "",
    group: Annotated[
        list[str] | None,
        typer.Option("--as", help="List only what this access group may read. May be repeated.", show_default="all"),
    ] = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Show who may read which document, and why.

    `surefind access check` lists the documents for which nobody decided: they have no `acl`, no rule of surefind.toml
    covers them, and there is no default. It exits with 1 if there are any, for use in CI.
    """
    from surefind.base.access import Access
    from surefind.kb import KnowledgeBase
    from surefind.kb.decisions import decisions
    from surefind.kb.status import problems_of

    if action not in ("", _CHECK):
        raise UsageError(f"There is no action {action!r}. Write: surefind access, or surefind access check.")
    with KnowledgeBase.open(kb) as base:
        made = decisions(base)
        problems = [] if group else problems_of(base.catalogue)
    shown = [decision for decision in made if group is None or decision.admits(Access.of(*group))]
    if action == _CHECK:
        shown = [decision for decision in shown if not decision.lists]
    if as_json:
        print_json({"documents": [_row(decision) for decision in shown], "problems": problems})
    else:
        _print(shown, len(made), action)
        left = [problem for problem in problems if problem.left_to_owner]
        list_problems(LEFT_TO_OWNER, left, len(left))
        list_problems(
            "files skipped or read only in part", [problem for problem in problems if not problem.left_to_owner]
        )
    if action == _CHECK and shown:
        raise typer.Exit(1)


def _row(decision: Decision) -> dict[str, object]:
    return {"document": decision.document, "readers": decision.readers, "lists": decision.lists}


def _print(shown: list[Decision], documents: int, action: str) -> None:
    width = min(max((len(decision.document) for decision in shown), default=0), 60)
    for decision in shown:
        typer.echo(f"{decision.document:<{width}}  {decision.readers}  ({decision.reason})")
    if action != _CHECK:
        typer.echo(f"{len(shown)} of {documents} documents.")
    elif shown:
        typer.echo(
            f"{len(shown)} of {documents} documents have no decision, so everybody may read them. Write `acl` in the "
            "document (`acl: [public]` for everybody), or a rule or a default in surefind.toml: surefind help access."
        )
    else:
        typer.echo(f"Every document has a decision ({documents} documents).")
