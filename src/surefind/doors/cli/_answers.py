"""`surefind bench --answers`: how good the quotes of `surefind ask` are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from surefind.base.errors import ExamError, QueryError, UsageError
from surefind.doors.cli._common import console, print_json, progress, tell_problems

if TYPE_CHECKING:
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.answers_report import AnswersReport
    from surefind.lab.bench.plan import Plan

_HEAD, _COLUMN = 26, 24
"""The width of the names of figures, and of a column of figures."""


def check_options(answers: bool, unanswerable: Path | None, others: Mapping[str, object]) -> None:
    """Refuses options that do not go together. `others` are those that --answers does not take."""
    if unanswerable and not answers:
        raise UsageError("--unanswerable is for --answers. Add --answers, or leave it out.")
    wrong = [option for option, value in others.items() if value]
    if answers and wrong:
        raise UsageError(f"--answers measures what `surefind ask` quotes, and {wrong[0]} is not for it. Leave one out.")


def bench_answers(
    kb: Path,
    plans: Callable[[KnowledgeBase], list[Plan]],
    unanswerable: Path | None,
    out: Path | None,
    command: str,
    as_json: bool,
) -> None:
    from surefind.base.disk.records import to_json
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.answers import measure_answers
    from surefind.lab.bench.answers_page import write_answers
    from surefind.lab.bench.saved import report_folder

    without = questions_of(unanswerable) if unanswerable else []
    reports: list[tuple[AnswersReport, Path]] = []
    with progress(quiet=as_json) as report, KnowledgeBase.open(kb) as base:
        tell_problems(base)
        planned = plans(base)
        for plan in planned:
            made = measure_answers(base, plan, without, command, report)
            folder = out / plan.exam.name if out and len(planned) > 1 else out
            page = write_answers(made, folder or report_folder(base.data, made.exam.name, made.created))
            reports.append((made, page))
    if as_json:
        shown = [{**to_json(made), "page": str(page)} for made, page in reports]
        print_json(shown[0] if len(shown) == 1 else {"reports": shown})
        return
    for made, page in reports:
        _show(made, page)


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


def _show(made: AnswersReport, page: Path) -> None:
    """Prints a row for each figure and a column for each pipeline, in as many tables as the screen needs."""
    from rich.table import Table

    from surefind.lab.bench.answers_page import LEGEND, about, cells, heads, row_name

    screen, rows = console(), made.ordered
    typer.echo(about(made))
    fit = max(1, (screen.width - _HEAD) // _COLUMN)
    for at in range(0, len(rows), fit):
        part = rows[at : at + fit]
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("", no_wrap=True)
        for row in part:
            table.add_column(row_name(row), justify="right", overflow="fold")
        for figures in zip(heads(made), *(cells(made, row) for row in part), strict=True):
            table.add_row(*figures)
        screen.print(table)
    typer.echo(LEGEND)
    typer.echo(f"Report: {page}")
