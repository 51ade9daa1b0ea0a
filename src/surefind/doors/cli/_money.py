"""Asks before money is spent: prints the quote, asks for confirmation, sets the budget."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.base.errors import UsageError
from surefind.doors.cli._common import asking

if TYPE_CHECKING:
    from surefind.base.prompts.values import Calls
    from surefind.kb import KnowledgeBase

Budget = Annotated[
    float | None,
    typer.Option("--budget", help="The most dollars to spend on language models.", show_default="[llm] budget"),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Accept the quoted cost without asking.")]


def agree(
    kb: KnowledgeBase,
    calls: Sequence[Calls],
    budget: float | None,
    yes: bool,
    quiet: bool = False,
    bounded: bool = True,
) -> None:
    """Sets the budget, prints what the calls will cost, and asks for confirmation if they cost anything. If not
    `bounded`, the quote is an estimate, not a limit: the model may be asked again when its answers are unusable."""
    from surefind.base.prompts.meter import money
    from surefind.engine.llm.quote import quote

    if budget is not None:
        if budget < 0:
            raise UsageError(f"--budget must be 0 or more dollars, not {budget}.")
        kb.services.llm.meter.limit = budget
    if not calls:
        return
    quoted = quote(kb.services.llm, calls)
    limit = kb.services.llm.meter.limit
    line = f"{quoted}" + ("" if limit is None else f"; the budget is {money(limit)}")
    if not quiet:
        typer.echo(f"{'At most' if bounded else 'About'} {line}; cached answers are free.", err=True)
    if not quoted.costs or yes:
        return
    if quiet or not sys.stdin.isatty():
        raise UsageError(f"This may cost money: {line}. Add --yes to continue.")
    with asking():
        go_on = typer.confirm("Continue?", err=True)
    if not go_on:
        raise typer.Abort
