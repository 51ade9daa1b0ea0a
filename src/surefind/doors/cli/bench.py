"""`surefind bench`: measures which configuration is best for these documents, by how much, and how sure we are.

`surefind bench --answers`: how good the quotes of `surefind ask` are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefind.base.errors import ExamError, QueryError, UsageError
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
from surefind.doors.cli.search import Depth, Fuse, Rerank, Retrieve, choose
from surefind.doors.cli.use import adopt_recommended, say_how_to_adopt, show_adopted

if TYPE_CHECKING:
    from surefind.base.access import Access
    from surefind.base.prompts.values import Calls
    from surefind.base.protocols import OnProgress
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.answers import AnswersReport
    from surefind.lab.bench.names import Adoption
    from surefind.lab.bench.plan import Plan
    from surefind.lab.bench.run import Finished
    from surefind.lab.exam.model import Exam
    from surefind.lab.fitness.kinds import Need

_HEAD, _COLUMN = 26, 24
"""The width of the names of figures, and of a column of figures."""


def check_options(answers: bool, own: Mapping[str, object], others: Mapping[str, object]) -> None:
    """Refuses options that do not go together: `own` are for --answers alone, `others` are those that it does not
    take."""
    given = next((option for option, value in own.items() if value), None)
    if given and not answers:
        raise UsageError(f"{given} is for --answers. Add --answers, or leave it out.")
    wrong = [option for option, value in others.items() if value]
    if answers and wrong:
        raise UsageError(f"--answers measures what `surefind ask` quotes, and {wrong[0]} is not for it. Leave one out.")


def bench_answers(
    kb: Path,
    plans: Callable[[KnowledgeBase], list[Plan]],
    unanswerable: Sequence[Path],
    model: str | None,
    out: Path | None,
    command: str,
    spending: tuple[float | None, bool],
    as_json: bool,
) -> None:
    """Measures quotes or, with `model`, what a language model writes; "" is the one of the settings."""
    from surefind.base.disk.sealed import to_json
    from surefind.kb import KnowledgeBase
    from surefind.kb.answer.written import calls_of
    from surefind.lab.bench.answers import measure_answers, write_answers
    from surefind.lab.bench.saved import report_folder

    without = {path.stem: questions_of(path) for path in unanswerable}
    reports: list[tuple[AnswersReport, Path]] = []
    with progress(quiet=as_json) as report, KnowledgeBase.open(kb) as base:
        tell_problems(base)
        planned = plans(base)
        if model is not None:
            asked = sum(
                len(plan.contenders) * (len(plan.exam.queries) + sum(map(len, without.values()))) for plan in planned
            )
            agree(base, [calls_of(base.services, model or None, asked)], *spending, quiet=as_json)
        for plan in planned:
            made = measure_answers(base, plan, without, command, report, model)
            folder = out / plan.exam.name if out and len(planned) > 1 else out
            page = write_answers(made, folder or report_folder(base.data, made.exam.name, made.created))
            reports.append((made, page))
    if as_json:
        shown = [{**to_json(made), "page": str(page)} for made, page in reports]
        print_json(shown[0] if len(shown) == 1 else {"reports": shown})
        return
    for made, page in reports:
        _show_answers(made, page)


def questions_of(path: Path) -> list[str]:
    """The questions of a file, each once. Raises an error if there are none, or one is too long to be asked."""
    from surefind.engine.search.reader import check_query
    from surefind.lab.exam.formats.questions import read_questions

    questions = list(dict.fromkeys(text.strip() for text in read_questions(path) if text.strip()))
    if not questions:
        raise ExamError(f"{path} has no questions. Write one a line.")
    for number, text in enumerate(questions, 1):
        try:
            check_query(text, 1)
        except QueryError as error:
            raise ExamError(f"Question {number} of {path} cannot be asked. {error}") from None
    return questions


def _show_answers(made: AnswersReport, page: Path) -> None:
    """Prints a row for each figure and a column for each pipeline, in as many tables as the screen needs."""
    from rich.table import Table

    from surefind.lab.bench.answers import LEGEND, about, figures, row_name

    screen, rows = console(), made.ordered
    typer.echo(about(made))
    fit = max(1, (screen.width - _HEAD) // _COLUMN)
    for at in range(0, len(rows), fit):
        part = rows[at : at + fit]
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("", no_wrap=True)
        for row in part:
            table.add_column(row_name(row), justify="right", overflow="fold")
        columns = [figures(made, row) for row in part]
        for name in columns[0]:
            table.add_row(name, *(column[name] for column in columns))
        screen.print(table)
    typer.echo(LEGEND)
    typer.echo(f"Report: {page}")


def register(app: typer.Typer) -> None:
    app.command("bench")(bench)


def bench(
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            help="A predefined comparison: context-layer, chunking, champion, fusion, graph, cascade.",
            autocompletion=_complete.presets,
        ),
    ] = None,
    pipelines: Annotated[
        list[str] | None,
        typer.Option(
            "--pipeline",
            "-p",
            help="A pipeline to compare, by name or spec; a list in a spec means alternatives: "
            "'bm25 + dense >> convex(alpha=[0.1, 0.3])'. May be repeated.",
            autocompletion=_complete.pipelines,
        ),
    ] = None,
    retrieve: Retrieve = None,
    fuse: Fuse = None,
    rerank: Rerank = None,
    depth: Depth = None,
    layouts: Annotated[
        list[str] | None,
        typer.Option(
            "--layout",
            help="A way to cut the documents: 'fixed(tokens=[300, 700]) + headings'. May be repeated.",
            autocompletion=_complete.stages("chunk"),
        ),
    ] = None,
    exam: Annotated[
        list[str] | None,
        typer.Option(
            "--exam",
            help="An exam from `surefind exam list`; may be repeated.",
            show_default="known-item questions",
            autocompletion=_complete.exams,
        ),
    ] = None,
    beir: Annotated[
        Path | None, typer.Option("--beir", help="A folder in BEIR format to use as both documents and exam.")
    ] = None,
    split: Annotated[str, typer.Option("--split", help="The split of the BEIR folder.")] = "test",
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure", "-m", help="A measure: nDCG@10, R@5:span, T1EM …; may be repeated. The first one decides."
        ),
    ] = None,
    answers: Annotated[
        bool, typer.Option("--answers", help="Measure what `surefind ask` quotes instead, and how sure it is.")
    ] = False,
    unanswerable: Annotated[
        list[Path] | None,
        typer.Option(
            "--unanswerable",
            help="For --answers: a file of questions that the documents do not answer, one a line, or CSV or JSONL. "
            "May be repeated: each file has its own figures.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--llm", help="For --answers: measure what this language model writes, such as ollama:llama3.2, not quotes."
        ),
    ] = None,
    per_family: Annotated[int, typer.Option("--per-family", help="Known-item questions per family.")] = 200,
    seed: Annotated[int, typer.Option("--seed", help="The random seed of the known-item questions.")] = 42,
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder for the report.", show_default=".surefind/reports")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="A file to save the report to, as a baseline for --check.")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option("--check", help="A saved baseline; exit 1 if retrieval is significantly worse than it."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--as",
            help="Also use documents restricted to this access group; '*' uses all. May be repeated. The report quotes "
            "them.",
            show_default="none",
        ),
    ] = None,
    use: Annotated[
        bool, typer.Option("--use", help="Make the recommended configuration the default, as `surefind use` does.")
    ] = False,
    runs: Annotated[bool, typer.Option("--runs", help="Also write TREC run files.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the plan, print its cost, and stop.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run again even if nothing changed.")] = False,
    ask_again: Annotated[
        bool,
        typer.Option("--ask-again", help="Ask the language model again if its cached answer is unusable."),
    ] = False,
    ray: Annotated[
        str, typer.Option("--ray", metavar="ADDRESS", help="Rank on this Ray cluster: HOST:6379, or auto.")
    ] = "",
    budget: Budget = None,
    yes: Yes = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Run every configuration on an exam from your own documents and say which one wins.

    Without options, bench writes known-item questions from the documents, runs the configurations of the context-layer
    study, hybrid, pair, careful, thorough and the pipelines of surefind.toml, and saves the report as a web page. What
    takes minutes is left out; the report says how to add it. Results are cached: a second run takes
    seconds, and a stopped run continues from where it stopped.

    With --answers, bench asks the questions of the exam as `surefind ask --quote` does, of the default pipeline or of
    those that are named, and compares the quotes with the gold passages. With --llm, a language model writes the
    answers. Only its answers are cached: a stopped run starts again.
    """
    from surefind.base.access import Access
    from surefind.kb import KnowledgeBase
    from surefind.kb.settings.config import FILE_NAME
    from surefind.kb.settings.file import check_writable
    from surefind.lab.bench.gate import check_report, read_baseline, save_baseline
    from surefind.lab.bench.names import compared, plan_for
    from surefind.lab.bench.run import beir_base
    from surefind.lab.fitness.check import check_calls, require_fit

    access = Access.of(*(group or ()))
    others: dict[str, object] = {"--layout": layouts, "--beir": beir, "--measure": measure, "--save": save}
    others |= {"--check": check, "--use": use, "--runs": runs, "--dry-run": dry_run, "--fresh": fresh, "--ray": ray}
    check_options(answers, {"--unanswerable": unanswerable, "--llm": model}, {**others, "--ask-again": ask_again})
    if answers:

        def planned(base: KnowledgeBase) -> list[Plan]:
            texts = _texts(base, pipelines or [], retrieve, fuse, rerank, depth)
            what = compared(base, preset, texts or ([] if preset else [base.settings.pipeline]), [], [])
            return [
                plan_for(base, chosen_exam, what, access)
                for chosen_exam in _exams(base, exam or [], per_family, seed, access)
            ]

        bench_answers(kb, planned, unanswerable or [], model, out, _command(), (budget, yes), as_json)
        return
    if ray and (fresh or runs):
        raise UsageError("--ray puts rankings into the cache, and --fresh and --runs do not read it. Leave one out.")
    if (save or check or use) and exam and len(exam) > 1:
        raise UsageError("--save, --check and --use work with one exam only. Give --exam once.")
    if use and (beir or dry_run):
        other = "--beir measures other documents than your own" if beir else "--dry-run measures nothing"
        raise UsageError(f"--use adopts what was measured on your documents, and {other}. Leave one of the two out.")
    if use:  # before hours of work
        check_writable(kb.resolve() / FILE_NAME)
    baseline = read_baseline(check) if check else None
    finished: list[Finished] = []
    pages: list[Path] = []
    with progress(quiet=as_json) as report:
        given = beir_base(kb, beir, split, report) if beir is not None else None
        with given[0] if given else KnowledgeBase.open(kb) as base:
            tell_problems(base)
            texts = _texts(base, pipelines or [], retrieve, fuse, rerank, depth)
            what = compared(base, preset, texts, layouts or [], measure or [])
            exams = [given[1]] if given else _exams(base, exam or [], per_family, seed, access)
            plans = [plan_for(base, questions, what, access) for questions in exams]
            quotes = [_quote(base, plan) for plan in plans]
            if dry_run or not as_json:
                _say(quotes, as_json)
            if not dry_run:
                needs = _needs(base, plans)
                agree(base, [*_calls(base, plans), *check_calls(base, needs)], budget, yes, as_json)
                require_fit(base, needs, report)
            for plan in plans if not dry_run else ():
                finished.append(_run(base, plan, fresh or runs, report, ask_again, ray))
                folder = out / plan.exam.name if out and len(plans) > 1 else out
                pages.append(_write(base, finished[-1], folder, runs))
    reports = [finished_run.report for finished_run in finished]
    outcome = check_report(reports[0], baseline) if baseline and reports else None
    if save and reports:
        save_baseline(reports[0], save)
    failed = bool(outcome and outcome.failed)
    adopt = partial(adopt_recommended, kb, reports[0], (budget, yes), as_json) if use and not failed else None
    if not dry_run:
        _show(finished, pages, outcome, as_json, adopt)
    if len(reports) == 1 and len(reports[0].rows) > 1 and not (as_json or adopt or failed or beir):
        say_how_to_adopt(kb, reports[0], out)
    if failed:
        if use:
            typer.echo("The check failed, so nothing was adopted.", err=True)
        raise typer.Exit(1)


def _texts(
    kb: KnowledgeBase,
    given: list[str],
    retrieve: list[str] | None,
    fuse: str | None,
    rerank: list[str] | None,
    depth: int | None,
) -> list[str]:
    """The pipelines of --pipeline, and the one that --retrieve, --fuse, --rerank and --depth describe, as in `search`.
    A pipeline that only changes parts of the default is compared with the default."""
    if not (retrieve or fuse or rerank or depth):
        return given
    before = given or ([] if retrieve else [kb.settings.pipeline])
    return [*before, str(choose(kb, None, retrieve, fuse, rerank, depth)[0])]


def _exams(kb: KnowledgeBase, names: list[str], per_family: int, seed: int, access: Access) -> list[Exam]:
    from surefind.lab.bench.run import known_item_exam
    from surefind.lab.exam.store import ExamStore

    store = ExamStore(kb.data / "exams")
    tell = partial(typer.echo, err=True)
    return [store.load(name) for name in names] or [known_item_exam(kb, per_family, seed, access, tell)]


def _run(kb: KnowledgeBase, plan: Plan, fresh: bool, report: OnProgress | None, ask_again: bool, ray: str) -> Finished:
    from surefind.lab.bench.run import run_bench

    return run_bench(kb, plan, _command(), fresh, report, ask_again, ray)


def _quote(kb: KnowledgeBase, plan: Plan) -> dict[str, Any]:
    from surefind.lab.bench.cost import quote_for
    from surefind.lab.bench.engine import Bench

    quote = quote_for(Bench(kb), plan)
    return {**asdict(quote), "text": str(quote)}


def _calls(kb: KnowledgeBase, plans: list[Plan]) -> list[Calls]:
    from surefind.lab.bench.cost import llm_calls

    return [calls for plan in plans for calls in llm_calls(kb, plan)]


def _needs(kb: KnowledgeBase, plans: list[Plan]) -> list[Need]:
    from surefind.lab.bench.cost import plan_needs

    return list(dict.fromkeys(need for plan in plans for need in plan_needs(kb, plan)))


def _say(quotes: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(quotes[0] if len(quotes) == 1 else {"quotes": quotes})
    else:
        for quote in quotes:
            typer.echo(quote["text"])


def _write(kb: KnowledgeBase, finished: Finished, out: Path | None, runs: bool) -> Path:
    from surefind.lab.bench.files import write_files, write_runs
    from surefind.lab.bench.saved import report_folder

    report = finished.report
    folder = out or report_folder(kb.data, report.exam.name, report.created)
    page = write_files(report, folder)
    if runs and finished.outcome:
        outcome = finished.outcome
        spans = [view.spans() for view in outcome.views]
        write_runs(folder / "runs", [row.name for row in report.rows], outcome.rankings, report.query_ids, spans)
    return page


def _show(
    finished: list[Finished],
    pages: list[Path],
    outcome: Any,
    as_json: bool,
    adopt: Callable[[], Adoption] | None,
) -> None:
    """Prints the reports and the outcome of the check. The table is printed before `adopt`, which may fail."""
    if as_json:
        from surefind.base.disk.sealed import to_json

        more = {"check": {"failed": outcome.failed, "rows": outcome.rows}} if outcome else {}
        more |= {"adopted": to_json(adopt())} if adopt else {}
        shown = [
            {**to_json(finished_run.report), "page": str(page), **more}
            for finished_run, page in zip(finished, pages, strict=True)
        ]
        print_json(shown[0] if len(shown) == 1 else {"reports": shown})
        return
    from surefind.lab.bench.terminal import show

    for finished_run, page in zip(finished, pages, strict=True):
        if finished_run.outcome is None:
            since = finished_run.report.created
            typer.echo(f"Nothing changed since {since}: this is the cached report (--fresh runs again).")
        show(finished_run.report, console())
        typer.echo(f"Report: {page}")
    if outcome:
        typer.echo(str(outcome))
    if adopt:
        show_adopted(adopt())


def _command() -> str:
    import shlex

    return shlex.join(["surefind", *sys.argv[1:]])
