"""`surefind use`: makes a configuration the default of this knowledge base, and undoes that.

`surefind init`: writes a surefind.toml with a comment on every setting.

Adopts a configuration: writes it into surefind.toml after its indexes are built, and says what changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.base.errors import ConfigError, UsageError
from surefind.doors.cli import _complete
from surefind.doors.cli._common import HERE, Budget, Folder, Json, Yes, agree, print_json, progress

if TYPE_CHECKING:
    from surefind.base.prompts.values import Calls
    from surefind.kb import KnowledgeBase
    from surefind.kb.adoption import SettingsChange
    from surefind.lab.bench.names import Adoption
    from surefind.lab.bench.report import BenchReport

UNDO = "surefind use --undo"


def adopt_recommended(kb: Path, report: BenchReport, money: tuple[float | None, bool], quiet: bool) -> Adoption:
    """Makes the recommended row of a report the default of the knowledge base."""
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.names import change_for
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
    from surefind.lab.bench.names import adopt

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


# Unlike other commands, init does not use the knowledge base of a parent folder: its user wants a new one here.
NewFolder = Annotated[
    Path,
    typer.Option("--kb", envvar="SUREFIND_KB", help="The folder for surefind.toml.", show_default="the current folder"),
]


def init(
    kb: NewFolder = HERE,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing surefind.toml.")] = False,
    as_json: Json = False,
) -> None:
    """Write a surefind.toml with every setting explained. It is optional: the defaults are the same without it."""
    from surefind.kb.settings.config import FILE_NAME, TEMPLATE

    path = kb.resolve() / FILE_NAME
    if path.exists() and not force:
        raise ConfigError(f"{path} already exists. Edit it, or replace it with: surefind init --force.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TEMPLATE, encoding="utf-8")
    if as_json:
        print_json({"written": str(path)})
    else:
        typer.echo(f"Wrote {path}. Next: surefind sync FOLDER, or surefind serve for the pages.")


def register(program: typer.Typer) -> None:
    program.command("use")(use)
    program.command("init")(init)


def use(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A row of a report, a pipeline of surefind.toml, a configuration of a preset, a retriever, or a spec.",
            autocompletion=_complete.pipelines,
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", help="Take the row from this report: its folder, or its JSON file.", show_default=False
        ),
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Restore surefind.toml as it was before the last change.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would change and what would be built, and stop.")
    ] = False,
    budget: Budget = None,
    yes: Yes = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Make a configuration the default for searches: write it into surefind.toml.

    NAME is looked up in surefind.toml and the built-in pipelines (hybrid, pair, careful, thorough), among retrievers
    and specs, in the reports of this knowledge base (newest first), and in the presets. Missing indexes are built
    first; if that fails or is stopped, surefind.toml stays as it is. Comments in the file are kept.
    """
    from surefind.kb import KnowledgeBase

    if undo and (name or report):
        raise UsageError("--undo takes no name and no --report: it restores what was in use before the last change.")
    with KnowledgeBase.open(kb) as base:
        change = _undoing(base) if undo else _adopting(base, name, report)
        made = carry_out(base, change, (budget, yes), as_json, dry_run)
    print_json(made) if as_json else show_adopted(made)


def _undoing(base: KnowledgeBase) -> SettingsChange:
    from surefind.kb.adoption import prepare_undo

    return prepare_undo(base.folder)


def _adopting(base: KnowledgeBase, name: str | None, report: Path | None) -> SettingsChange:
    import shlex

    from surefind.lab.bench.names import change_for, find, find_in
    from surefind.lab.bench.saved import reports_in, saved_configs

    if name is None:
        newest = saved_configs(report) if report else next(reports_in(base.data), None)
        if newest is None:
            raise UsageError("Name a configuration to use. To find the best one, run: surefind bench.")
        recommended = f"surefind use {shlex.quote(newest.recommended)}"
        raise UsageError(f"Name a configuration to use. The report {newest.path.name} recommends: {recommended}.")
    return change_for(base, find_in(saved_configs(report), name) if report else find(base, name))
