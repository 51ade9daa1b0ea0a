"""Before money is spent: the quote, the question, the budget."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.errors import UsageError
from surefind.serve.cli._common import asking

if TYPE_CHECKING:
    from surefind.kb import KnowledgeBase
    from surefind.prompts.values import Calls

Budget = Annotated[
    float | None,
    typer.Option(
        "--budget", help="The most dollars that may be spent on language models.", show_default="[llm] budget"
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Spend what the quote says without asking.")]


def agree(
    kb: KnowledgeBase,
    asked: Sequence[Calls],
    budget: float | None,
    yes: bool,
    quiet: bool = False,
    bounded: bool = True,
) -> None:
    """Sets the budget, says what the calls will cost, and asks if they cost anything. Not `bounded`: it may be more,
    where what a model writes is of no use."""
    from surefind.llm.quote import quote
    from surefind.prompts.meter import money

    if budget is not None:
        if budget < 0:
            raise UsageError(f"--budget must be 0 or more dollars, not {budget}.")
        kb.services.llm.meter.limit = budget
    if not asked:
        return
    quoted = quote(kb.services.llm, asked)
    limit = kb.services.llm.meter.limit
    line = f"{quoted}" + ("" if limit is None else f"; the budget is {money(limit)}")
    if not quiet:
        typer.echo(f"{'At most' if bounded else 'About'} {line}; what is in the cache is free.", err=True)
    if not quoted.costs or yes:
        return
    if quiet or not sys.stdin.isatty():
        raise UsageError(f"This may cost money: {line}. Say --yes to go on.")
    with asking():
        go_on = typer.confirm("Go on?", err=True)
    if not go_on:
        raise typer.Abort
