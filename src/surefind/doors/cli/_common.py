"""Code shared by commands: options, the console, JSON output, progress bars.

Asks before money is spent: prints the quote, asks for confirmation, sets the budget.

The commands in groups, as `surefind --help` lists them.

Advises users whose documents are not in English to choose another encoder.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from surefind.base.disk.sealed import nearest
from surefind.base.errors import StoreError, UsageError
from surefind.doors.events import plain
from surefind.doors.terminal import clean_streams, escaped, screen

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from surefind.base.prompts.values import Calls
    from surefind.base.protocols import OnProgress
    from surefind.engine.write.intake import Problem
    from surefind.kb import KnowledgeBase


def _chosen(context: typer.Context, given: Path) -> Path:
    """Returns the folder given with --kb, else that of the nearest knowledge base, and prints it if it is a parent."""
    source = context.get_parameter_source("kb")
    return given if source and source.name != "DEFAULT" else _nearest(quiet=context.resilient_parsing)


def _nearest(quiet: bool) -> Path:
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise StoreError(
            "The current folder no longer exists. Change to another one, or name a knowledge base with --kb."
        ) from None
    folder = nearest(here) or here
    if folder != here and not quiet:
        typer.echo(f"Using the knowledge base in {folder}.", err=True)
    return folder


Folder = Annotated[
    Path,
    typer.Option(
        "--kb",
        envvar="SUREFIND_KB",
        help="The folder of the knowledge base (with surefind.toml or .surefind).",
        show_default="the nearest one, from the current folder upwards",
        callback=_chosen,
    ),
]
Readers = Annotated[
    list[str] | None,
    typer.Option(
        "--as",
        help="Also show documents restricted to this access group; '*' shows all. May be repeated.",
        show_default="none",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
HERE = Path()
LEFT_TO_OWNER = "documents that look restricted, so only the owner may read them (surefind help access)"
_MAX_PRINTED_PROBLEMS = 10
_shown: list[Progress] = []
"""The progress bars on the screen now."""
_WIDE = 140
"""Width of output to files and pipes, in characters, so that tables keep all of their columns."""


def list_problems(what: str, problems: Sequence[Problem], most: int = _MAX_PRINTED_PROBLEMS, err: bool = False) -> None:
    """Prints the files and documents that have a problem, if there are any."""
    if problems:
        typer.echo(f"{len(problems)} {what}:", err=err)
        for problem in problems[:most]:
            typer.echo(f"  {problem.path} {problem.reason}", err=err)
        if len(problems) > most:
            typer.echo(f"  … and {len(problems) - most} more: surefind status lists them all.", err=err)


def tell_problems(*bases: KnowledgeBase) -> None:
    """Says on stderr which files were not read, or not completely, and which documents are left to the owner: these are
    missing in what is measured or learnt."""
    from surefind.kb.status import problems_of

    problems = [problem for base in dict.fromkeys(bases) for problem in problems_of(base.catalogue)]
    list_problems("problems of its documents", problems, err=True)


def console(stderr: bool = False) -> Console:
    # Output is plain text: [bm25] in ppr(seed=[bm25]) is not markup, and :b: in a title is not an emoji.
    plain: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    made = screen(stderr, **plain)
    return made if made.is_terminal else screen(stderr, **plain, width=_WIDE)


def print_json(value: Any, indent: int | None = 2) -> None:
    typer.echo(escaped(json.dumps(value, ensure_ascii=False, indent=indent, default=plain)))


@contextlib.contextmanager
def progress(quiet: bool = False) -> Iterator[OnProgress | None]:
    """Shows progress. On a terminal: one bar for each kind of work, with the time left, unless `quiet`. Elsewhere:
    plain lines on stderr even if `quiet`, because logs need them and JSON goes to stdout."""
    shown = console(stderr=True)
    if not shown.is_terminal:
        from surefind.doors.events import ProgressLog

        with ProgressLog(lambda event: typer.echo(str(event), err=True)) as log:
            yield log.report
        return
    if quiet:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # A redirected stdout is printed through the bars, on stderr. Redirect only a terminal: files must get their output.
    terminal = sys.stdout.isatty()
    with Progress(*columns, console=shown, transient=True, redirect_stdout=terminal) as bars:
        clean_streams()  # those of the bars, which replaced the others
        tasks: dict[str, Any] = {}
        _shown.append(bars)

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        try:
            yield report
        finally:
            _shown.remove(bars)


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """Hides the progress bars during a question to the user, because they would draw over it."""
    for bars in _shown:
        bars.stop()
    try:
        yield
    finally:
        for bars in _shown:
            bars.start()


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


GROUPS = {
    "Search": ("search", "ask", "show", "open"),
    "Measure": ("bench", "drift", "exam", "tune", "calibrate", "study", "train", "use", "llm"),
    "Documents": ("init", "sync", "status", "access", "draft", "history", "diff", "rollback", "graph"),
    "Serve": ("serve", "mcp", "keys", "trust"),
    "More": ("demo", "doctor", "help"),
}
_WHOLE = 1000
"""Characters of a summary: more than any has, so that none is cut off."""


class CommandGroup(TyperGroup):
    """Lists commands with their whole summaries: those of the program in groups, those of a command in one list."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        names = self.list_commands(ctx)
        sections = GROUPS if ctx.parent is None else {"Commands": names}
        for title, members in sections.items():
            shown = [(name, self.get_command(ctx, name)) for name in members if name in names]
            with formatter.section(title):
                formatter.write_dl([(name, command.get_short_help_str(_WHOLE)) for name, command in shown if command])


def command_group(summary: str) -> typer.Typer:
    """Makes a command that has commands of its own."""
    return typer.Typer(help=summary, no_args_is_help=True, cls=CommandGroup)


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
    from surefind.base.prompts.values import money
    from surefind.engine.llm.models import quote

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
