"""`surefind tune`: searches for the best configuration under limits, confirms it, and adopts it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefind.doors.cli import _complete
from surefind.doors.cli._common import (
    HERE,
    Budget,
    Folder,
    Json,
    agree,
    asking,
    console,
    print_json,
    progress,
    tell_problems,
)

if TYPE_CHECKING:
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.engine import Bench
    from surefind.lab.bench.plan import Contender
    from surefind.lab.exam.model import Exam
    from surefind.lab.tune.search import Tuned, Tuner

_LONG = 60.0
"""Seconds from which on it is said before how long the work takes."""


def register(app: typer.Typer) -> None:
    app.command("tune")(tune)


def tune(
    exam: Annotated[
        str,
        typer.Option("--exam", help="The exam with real questions.", autocompletion=_complete.exams),
    ],
    pipelines: Annotated[
        list[str] | None,
        typer.Option(
            "--pipeline",
            "-p",
            help="A pipeline to try instead of the built-in grid; a list means alternatives. May be repeated.",
            autocompletion=_complete.pipelines,
            show_default=False,
        ),
    ] = None,
    layouts: Annotated[
        list[str] | None,
        typer.Option(
            "--layout",
            help="Also try this way to cut the documents; 'usual' means four common ones. May be repeated.",
            show_default="the current layout",
            autocompletion=_complete.stages("chunk"),
        ),
    ] = None,
    measure: Annotated[str, typer.Option("--measure", "-m", help="The measure that decides.")] = "nDCG@10",
    max_p95: Annotated[
        float | None, typer.Option("--max-p95-ms", help="The longest time of a query (95th percentile), in ms.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost-per-1k", help="The most dollars for 1,000 queries.")
    ] = None,
    max_index: Annotated[float | None, typer.Option("--max-index-mb", help="The largest indexes, in MB.")] = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="Start no new block of questions after this time.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Another seed asks the questions in another order.")] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the candidates and the cost of trying all, and stop.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Accept costs, and adopt the winner if it is better, without asking.")
    ] = False,
    budget: Budget = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Find the best configuration by racing, confirm it on unseen questions, and adopt it.

    All candidates are asked a few questions of one half of the exam; those that cannot win are dropped, the others are
    asked more. The winner is compared with the current configuration on the other half, and adopted only if it is
    better beyond noise. Ctrl-C stops and shows the best so far; a second run continues from the cache.
    """
    from surefind.doors.cli.use import carry_out, show_adopted
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.engine import Bench
    from surefind.lab.bench.names import change_for
    from surefind.lab.measure.ranks import parse_measure
    from surefind.lab.tune.search import Tuner
    from surefind.lab.tune.space import TuningLimits

    limits = TuningLimits(max_p95, max_cost, max_index)
    with KnowledgeBase.open(kb) as base:
        tell_problems(base)
        questions = _exam(base, exam)
        contenders = _contenders(base, pipelines or [], layouts or [])
        with progress(quiet=as_json) as report, base.services.llm.replaying():
            bench = Bench(base, report)
            tuner = Tuner(bench, questions, parse_measure(measure), limits, minutes, seed, _watcher(as_json))
            seconds = _agree(bench, contenders, questions, measure, (budget, yes), as_json or dry_run)
            if dry_run:
                _list(contenders, seconds, tuner, as_json)
                return
            if seconds > _LONG and not as_json:
                typer.echo(f"{_at_most(seconds)} Most are dropped early, and Ctrl-C keeps the best so far.", err=True)
            _race(tuner, contenders)
        tuned = tuner.found
        if not as_json:
            _show(tuned)
        adopted = None
        if tuned.winner and tuned.better and (yes or (not as_json and _wanted(tuned.winner.name))):
            adopted = carry_out(base, change_for(base, tuned.winner), (budget, yes), as_json)
        if as_json:
            print_json({**_as_data(tuned), "adopted": adopted})
        elif adopted:
            show_adopted(adopted)


def _exam(base: KnowledgeBase, name: str) -> Exam:
    from surefind.lab.exam.store import ExamStore

    return ExamStore(base.data / "exams").load(name)


def _contenders(base: KnowledgeBase, pipelines: list[str], layouts: list[str]) -> list[Contender]:
    from surefind.lab.bench.plan import from_texts, layouts_from_texts
    from surefind.lab.tune.space import candidates, usual_layouts

    named = from_texts(pipelines, base.settings.known) if pipelines else []
    cuts = list(layouts_from_texts([text for text in layouts if text != "usual"]).values())
    return candidates(base.settings, named, [*cuts, *(usual_layouts() if "usual" in layouts else [])])


def _agree(
    bench: Bench,
    contenders: list[Contender],
    exam: Exam,
    measure: str,
    money: tuple[float | None, bool],
    quiet: bool,
) -> float:
    """Quotes the language models that the candidates may ask, and asks before money is spent. Returns the seconds that
    all candidates take for all questions."""
    from surefind.lab.bench.cost import llm_calls, quote_for
    from surefind.lab.bench.plan import Plan, parse_measures

    plan = Plan(tuple(contenders), exam, parse_measures([measure]))
    agree(bench.kb, llm_calls(bench.kb, plan), *money, quiet)
    return 60 * quote_for(bench, plan).minutes


def _at_most(seconds: float) -> str:
    from surefind.base.running import about

    return f"Asking all candidates every question takes {about(seconds)}."


def _list(contenders: list[Contender], seconds: float, tuner: Tuner, as_json: bool) -> None:
    if as_json:
        rows = [
            {"name": contender.name, "spec": str(contender.pipeline), "layout": str(contender.layout or "")}
            for contender in contenders
        ]
        sizes = {"tuning": len(tuner.tuning), "held_out": len(tuner.held), "seconds": round(seconds)}
        print_json({"candidates": rows, **sizes})
        return
    for contender in contenders:
        typer.echo(f"  {contender.name}")
    confirmed = f"confirmed on {len(tuner.held)} others" if tuner.held else "not confirmed, since these are few"
    typer.echo(
        f"{len(contenders)} candidates on {len(tuner.tuning)} questions; the winner is {confirmed}. "
        f"{_at_most(seconds)} This was a dry run: nothing was measured."
    )


def _race(tuner: Tuner, contenders: list[Contender]) -> None:
    """Runs the race; Ctrl-C ends it and keeps the best so far."""
    try:
        tuner.run(contenders)
    except KeyboardInterrupt:
        tuner.found.stopped = "stopped with Ctrl-C"
        typer.echo("Stopped. What was measured is kept: the same command continues.", err=True)


def _wanted(name: str) -> bool:
    """Asks whether to adopt the winner; without a terminal, says how to."""
    import shlex

    if not sys.stdin.isatty():
        typer.echo(f"Adopt it with: surefind use {shlex.quote(name)}, or run this with --yes.")
        return False
    with asking():
        return typer.confirm("Adopt it?", default=True)


def _watcher(quiet: bool) -> Any:
    from surefind.lab.tune.view import lines

    def watch(standing: Any) -> None:
        for line in lines(standing):
            typer.echo(line, err=True)

    return None if quiet else watch


def _show(tuned: Tuned) -> None:
    from surefind.lab.tune.view import leaderboard, result

    screen = console()
    screen.print(leaderboard(tuned))
    for line in result(tuned):
        screen.print(line)


def _as_data(tuned: Tuned) -> dict[str, Any]:
    from surefind.lab.tune.view import as_json

    return as_json(tuned)
