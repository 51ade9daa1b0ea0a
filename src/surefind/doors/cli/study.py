"""`surefind study`: repeats the tables of a published study on your documents, beside the paper's own figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefind.base.errors import UsageError, choices
from surefind.doors.cli import _complete
from surefind.doors.cli._common import (
    HERE,
    Budget,
    Folder,
    Json,
    Yes,
    agree,
    console,
    print_json,
    progress,
    tell_problems,
)

if TYPE_CHECKING:
    from surefind.lab.study.context import Options
    from surefind.lab.study.run import StudyRun
    from surefind.lab.study.stage import Study


_LIMITS = ("paper", "surefind")


def register(app: typer.Typer) -> None:
    app.command("study")(study)


def study(
    name: Annotated[
        str | None,
        typer.Argument(
            help="The study; without one, the studies and their tables are listed.", autocompletion=_complete.studies
        ),
    ] = None,
    exam: Annotated[
        list[str] | None,
        typer.Option(
            "--exam",
            help="An exam from `surefind exam list`; each becomes a column. May be repeated.",
            show_default="known-item questions",
            autocompletion=_complete.exams,
        ),
    ] = None,
    beir: Annotated[
        list[Path] | None,
        typer.Option("--beir", help="A folder in BEIR format; each becomes a column. May be repeated."),
    ] = None,
    split: Annotated[str, typer.Option("--split", help="The split of the BEIR folders.")] = "test",
    questions: Annotated[
        int | None,
        typer.Option("--questions", help="Ask this many questions of each exam.", show_default="as in the study"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Another seed draws other questions.")] = 42,
    layout: Annotated[
        str,
        typer.Option(
            "--layout",
            help="How documents are cut; 'paper' is the layout of the study.",
            show_default="[index] of surefind.toml",
        ),
    ] = "",
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            "--encoder",
            help="The encoder of searches by vectors. In a study that compares encoders it may be repeated.",
            show_default="minilm",
            autocompletion=_complete.stages("embed"),
        ),
    ] = None,
    limits: Annotated[
        str,
        typer.Option(
            "--limits",
            help="What a model sees of a document and how much it writes, in agentic-kb: as in the 'paper' (all of it, "
            "1,000 tokens), or 'surefind' (8,000 and 150 tokens).",
        ),
    ] = "paper",
    repeats: Annotated[
        int,
        typer.Option(
            "--repeats", min=1, help="Run the rows of language models this often, to see how much they vary (±)."
        ),
    ] = 1,
    winner: Annotated[
        str,
        typer.Option(
            "--winner",
            help="The layout of later stages, in a study that compares layouts; the thesis took 'agentic-1'.",
            show_default="the best one here",
        ),
    ] = "",
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this table, such as 'Table 1'. May be repeated.")
    ] = None,
    llm: Annotated[
        str,
        typer.Option(
            "--llm",
            help="The language model for the steps that need one: openai:…, ollama:…",
            show_default="[llm] model",
        ),
    ] = "",
    cheaper_llm: Annotated[
        str,
        typer.Option(
            "--cheaper-llm", help="A second language model, in a study that compares two.", show_default="none"
        ),
    ] = "",
    offline: Annotated[
        bool, typer.Option("--offline", help="Leave out all steps that need a language model, and list them.")
    ] = False,
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--as",
            help="Also use documents restricted to this access group; '*' uses all. May be repeated. The report quotes "
            "questions about them.",
            show_default="none",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder for the report.", show_default=".surefind/studies")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the stages, what is left out and the cost, and stop.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what is stored.")] = False,
    budget: Budget = None,
    yes: Yes = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Repeat the tables of a published study on your own documents.

    Each table shows your figures beside those that the paper printed, and says whether your documents agree with the
    paper. Every exam and every BEIR folder becomes a column. Steps that ask a language model are quoted first; with
    --offline, or if no model is chosen, they are listed as left out. A stopped run continues from where it stopped.
    """
    from surefind.base.access import Access
    from surefind.engine.llm.address import parse_model
    from surefind.engine.write.layout import Layout
    from surefind.lab.study.context import Wanted, flags_of, open_collections
    from surefind.lab.study.html import folder_of, write_files
    from surefind.lab.study.run import StudyRun
    from surefind.lab.study.stage import find_study

    if name is None:
        _list(as_json)
        return
    if offline and (llm or cheaper_llm):
        raise UsageError("--offline leaves language models out, and --llm chooses one. Leave one of the two out.")
    chosen = find_study(name)
    chosen.chosen(only or ())
    options = _options(chosen, layout, encoder, cheaper_llm, winner, limits, repeats, only or ())
    for model in filter(None, (llm, cheaper_llm)):
        parse_model(model)
    asked = questions if questions is not None else chosen.questions
    access = Access.of(*(group or ()))
    wanted = Wanted(
        tuple(exam or ()), tuple(beir or ()), split, asked, seed, access, llm, offline or dry_run, chosen.exam
    )
    with progress(quiet=as_json) as report:
        paying = partial(agree, budget=budget, yes=yes, quiet=as_json)
        collections = open_collections(kb, wanted, report, partial(typer.echo, err=True), paying)
        tell_problems(*(one.kb for one in collections))
        home = collections[0].kb
        options = replace(options, llm=not offline and bool(home.services.llm.settings.model))
        if cheaper_llm and not options.llm:
            raise UsageError("--cheaper-llm is compared with the model of the study. Choose that one too, with --llm.")
        if winner and not options.llm and Layout.read(chosen.layouts[winner]).asks_llm:
            raise UsageError(f"A language model makes the layout {winner}. Choose one, with --llm.")
        flags = flags_of(wanted, options, offline)
        run = StudyRun(name, chosen, collections, options, tuple(only or ()), flags, report, fresh)
        _tell_own_layouts(run)
        try:
            if dry_run or not as_json:
                _announce(run, dry_run, as_json)
            if dry_run:
                return
            calls = [call for _, listed in run.calls() for call in listed]
            agree(home, calls, budget, yes, as_json)  # all collections share one budget
            made = run.run()
        finally:
            for collection in collections:
                collection.kb.close()
    page = write_files(made, out or folder_of(kb.resolve() / ".surefind", made))
    _show(made, page, as_json)


def _options(
    study: Study,
    layout: str,
    encoders: list[str] | None,
    cheaper_llm: str,
    winner: str,
    limits: str,
    repeats: int,
    only: Sequence[str],
) -> Options:
    """Reads the options, before questions are written or documents are synced."""
    from surefind.base import spec
    from surefind.engine.write.layout import Layout
    from surefind.lab.study.context import Options

    if len(encoders or ()) > 1 and not study.compares_encoders:
        raise UsageError("This study compares no encoders. Give one --encoder, or take support-chatbot.")
    if cheaper_llm and not study.compares_models:
        raise UsageError("This study compares no language models. Leave --cheaper-llm out, or take support-chatbot.")
    if limits not in _LIMITS:
        raise UsageError(f"--limits cannot be {limits!r}. {choices(limits, _LIMITS)}")
    if limits != "paper" and not study.limits:
        raise UsageError("This study's paper sets no limits. Leave --limits out, or take agentic-kb.")
    if repeats > 1 and not study.repeats:
        raise UsageError("This study repeats no rows. Leave --repeats out, or take support-chatbot.")
    if layout == "paper" and not study.layout:
        raise UsageError("This study names no layout of its own. Give one: --layout 'fixed(tokens=500, overlap=50)'.")
    if layout and all(stage.own_layouts for stage in study.chosen(only)):
        instead = " To choose the one that later stages use, take --winner." if study.layouts else ""
        raise UsageError(f"These tables compare layouts of their own, so --layout has no effect.{instead}")
    if winner and winner not in study.layouts:
        known = choices(winner, list(study.layouts)) if study.layouts else "Leave --winner out, or take agentic-kb."
        raise UsageError(f"This study has no layout {winner!r} to go on with. {known}")
    for encoder in encoders or ():
        spec.make("embed", encoder)
    text = study.layout if layout == "paper" else layout
    chosen = str(Layout.read(text)) if text else ""
    return Options(chosen, False, tuple(encoders or ()), cheaper_llm, limits, repeats, winner)


def _tell_own_layouts(run: StudyRun) -> None:
    """Says which tables the option --layout does not concern."""
    own = [table.name for stage in run.stages if stage.own_layouts for table in stage.tables]
    if run.options.layout and own:
        typer.echo(f"--layout does not concern {', '.join(own)}: layouts of its own are compared there.", err=True)


def _announce(run: StudyRun, dry_run: bool, as_json: bool) -> None:
    """Says what will run, what is left out and how long it takes, before anything is computed."""
    numbers = [table.name for stage in run.stages for table in stage.tables]
    left_out = run.left_out()
    if as_json:
        calls = [
            {"collection": collection.name, "calls": sum(c.calls for c in listed)} for collection, listed in run.calls()
        ]
        about = {"study": run.name, "tables": numbers, "left_out": left_out}
        print_json({**about, "llm_calls": calls, "minutes": round(run.minutes(), 2)})
        return
    asked = ", ".join(f"{collection.name} ({len(collection.exam.queries)} questions)" for collection in run.collections)
    typer.echo(f"{run.name}: {', '.join(numbers)}; on {asked}.", err=True)
    if left_out:
        typer.echo(f"Left out, because they need a language model (--llm): {', '.join(left_out)}.", err=True)
    minutes = run.minutes()
    if dry_run:
        count = sum(call.calls for _, listed in run.calls() for call in listed)
        typer.echo(f"About {minutes:.1f} minutes, without training, and {count:,} calls to language models.")
    elif minutes > 1:
        typer.echo(f"It takes about {minutes:.0f} minutes, without training; a stopped run goes on.", err=True)


def _show(report: dict[str, Any], page: Path, as_json: bool) -> None:
    from surefind.lab.study.html import show

    if as_json:
        print_json({**report, "page": str(page)})
        return
    show(report, console())
    typer.echo(f"Report: {page}")


def _list(as_json: bool) -> None:
    from surefind.lab.study.stage import find_study, study_names

    studies = [(name, find_study(name)) for name in study_names()]
    if as_json:
        print_json(
            [
                {"study": name, "source": known_study.source, "tables": known_study.numbers}
                for name, known_study in studies
            ]
        )
        return
    for name, known_study in studies:
        typer.echo(f"{name}: {known_study.source}")
        typer.echo(f"  {', '.join(known_study.numbers)}")
    typer.echo("Repeat one with: surefind study NAME. Add --offline to use no language model.")
