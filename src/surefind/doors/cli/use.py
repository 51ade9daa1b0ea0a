"""`surefind use`: makes a configuration the default of this knowledge base, and undoes that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.base.errors import UsageError
from surefind.doors.cli import _complete
from surefind.doors.cli._adopt import carry_out, show_adopted
from surefind.doors.cli._common import HERE, Folder, Json, print_json
from surefind.doors.cli._money import Budget, Yes

if TYPE_CHECKING:
    from surefind.kb import KnowledgeBase
    from surefind.kb.adoption import SettingsChange


def register(app: typer.Typer) -> None:
    app.command("use")(use)


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

    NAME is looked up in surefind.toml and the built-in pipelines (hybrid, careful, pair), among retrievers and specs,
    in the reports of this knowledge base (newest first), and in the presets. Missing indexes are built first; if that
    fails or is stopped, surefind.toml stays as it is. Comments in the file are kept.
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

    from surefind.lab.bench.adopting import change_for
    from surefind.lab.bench.names import find, find_in
    from surefind.lab.bench.saved import reports_in, saved_configs

    if name is None:
        newest = saved_configs(report) if report else next(reports_in(base.data), None)
        if newest is None:
            raise UsageError("Name a configuration to use. To find the best one, run: surefind bench.")
        recommended = f"surefind use {shlex.quote(newest.recommended)}"
        raise UsageError(f"Name a configuration to use. The report {newest.path.name} recommends: {recommended}.")
    return change_for(base, find_in(saved_configs(report), name) if report else find(base, name))
