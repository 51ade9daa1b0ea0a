"""Adopts a configuration: writes it into surefind.toml after its indexes are built, and says what changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from surefind.doors.cli._common import progress
from surefind.doors.cli._money import agree

if TYPE_CHECKING:
    from surefind.base.prompts.values import Calls
    from surefind.kb import KnowledgeBase
    from surefind.kb.adoption import SettingsChange
    from surefind.lab.bench.adopting import Adoption
    from surefind.lab.bench.report import BenchReport

UNDO = "surefind use --undo"


def adopt_recommended(kb: Path, report: BenchReport, money: tuple[float | None, bool], quiet: bool) -> Adoption:
    """Makes the recommended row of a report the default of the knowledge base."""
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.adopting import change_for
    from surefind.lab.bench.saved import recommended_by

    with KnowledgeBase.open(kb) as base:
        return carry_out(base, change_for(base, recommended_by(report)), money, quiet)


def say_how_to_adopt(kb: Path, report: BenchReport, folder: Path | None) -> None:
    """Prints the command that makes the recommended row of a report the default, unless it is that already. `folder` is
    that of a report outside the knowledge base, where names are not looked up."""
    import shlex

    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.saved import recommended_by

    recommended = recommended_by(report)
    with KnowledgeBase.open(kb) as base:
        in_use = recommended.pipeline == base.pipeline() and recommended.layout in (None, base.settings.layout)
    if not in_use:
        command = ["surefind", "use", report.recommended, *(["--report", str(folder)] if folder else [])]
        typer.echo(f"Make the recommended configuration the default with: {shlex.join(command)}")


def carry_out(
    base: KnowledgeBase, change: SettingsChange, money: tuple[float | None, bool], quiet: bool, dry_run: bool = False
) -> Adoption:
    """Builds what the change needs, then writes it. Returns what changed, for `show` and for JSON."""
    from surefind.lab.bench.adopting import adopt

    def agreed(calls: Sequence[Calls]) -> None:
        agree(base, calls, *money, quiet)

    with progress(quiet=quiet) as report:
        return adopt(base, change, agreed, report, partial(typer.echo, err=True), dry_run)


def show_adopted(made: Adoption) -> None:
    """Prints what changed, what was built, and how to undo it."""
    before, after = made.before, made.after
    if not made.changed:
        typer.echo(f"{after.pipeline} is the default already ({after.spec}). Nothing was changed.")
        return
    if made.name != after.pipeline and not made.undone:
        typer.echo(f"{made.name} is called {after.pipeline} in surefind.toml.")
    if before.pipeline != after.pipeline:
        typer.echo(f"pipeline: {before.pipeline} → {after.pipeline}")
    typer.echo(f"  {after.spec}")
    if before.layout != after.layout:
        typer.echo(f"layout: {before.layout} → {after.layout}")
    built = ", ".join(made.built)
    if made.dry_run:
        typer.echo(f"To build: {built or 'nothing'}. This was a dry run: nothing was built and nothing was written.")
        return
    typer.echo(f"Built: {built}." if built else "All indexes exist already.")
    if made.later:
        typer.echo(f"From now on a sync also builds {', '.join(made.later)}.")
    if made.undone:
        typer.echo(f"{made.file} is as it was before {made.name} was adopted.")
    else:
        typer.echo(f"Wrote {made.file}. Searches use it from now on. Undo with: {UNDO}")
