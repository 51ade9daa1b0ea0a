"""`surefind exam collect | queries`: questions that people really asked."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.base.errors import ExamError, UsageError
from surefind.doors.cli import _complete
from surefind.doors.cli._common import HERE, Folder, Json, print_json

if TYPE_CHECKING:
    from surefind.kb.queries import QueryLog
    from surefind.lab.exam.store import ExamStore

Name = Annotated[
    str,
    typer.Argument(help="The exam they are for; it need not exist yet.", autocompletion=_complete.exams),
]


def register(app: typer.Typer) -> None:
    for command in (collect, queries):
        app.command(command.__name__)(command)


def _store(kb: Path) -> ExamStore:
    from surefind.kb.settings.config import DATA_FOLDER
    from surefind.lab.exam.store import ExamStore

    return ExamStore(kb.resolve() / DATA_FOLDER / "exams")


def _log(kb: Path) -> tuple[QueryLog, bool]:
    """The log of queries, and whether searches are kept in it now."""
    from surefind.kb.queries import QueryLog
    from surefind.kb.settings.config import DATA_FOLDER, FILE_NAME, load_settings

    settings = load_settings(kb.resolve() / FILE_NAME)
    return QueryLog(kb.resolve() / DATA_FOLDER, settings.keep_days), settings.keep_queries


def collect(
    name: Name,
    files: Annotated[
        list[Path] | None, typer.Argument(help="CSV, TSV, JSONL or JSON files, or text with a question a line.")
    ] = None,
    column: Annotated[
        str,
        typer.Option(
            "--column",
            help="The column with the questions; a number if the table has no header.",
            show_default="question, query, text, subject, title, body or message",
        ),
    ] = "",
    kept: Annotated[
        bool, typer.Option("--kept", help="The queries that searches have kept, too (surefind exam queries).")
    ] = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Collect questions from search logs, chat exports, tickets and FAQ tables, without answers.

    They wait on the page Label of `surefind serve`, where whoever may review marks what answers them. Greetings, texts
    with fewer than two content words, texts longer than 400 characters and repeats are left out and counted.
    """
    from surefind.lab.exam.candidates import normalised
    from surefind.lab.exam.formats.questions import read_questions

    if not files and not kept:
        raise UsageError("Name a file with questions, or take those of the log of queries: --kept.")
    texts = [(path.name, read_questions(path, column)) for path in files or ()]
    skipped = Counter[str]()
    if kept:
        logged = list(reversed(_log(kb)[0].all()))
        public = [one.query for one in logged if not one.groups]
        skipped["asked by somebody with access groups: judges without them would read it"] += len(logged) - len(public)
        texts.append(("search", public))
    store = _store(kb)
    candidates = store.candidates(name)
    added = 0
    for source, questions in texts:
        made = candidates.collect(questions, source)
        added += len(made.added)
        skipped += made.skipped
    if not any(questions for _, questions in texts):
        raise ExamError(f"{', '.join(source for source, _ in texts)}: there are no questions in it.")
    answered = {normalised(query.text) for query in store.load(name).queries} if name in store.names() else set()
    waiting = sum(not candidate.verdict and candidate.key not in answered for candidate in candidates.all())
    if as_json:
        print_json({"name": name, "added": added, "skipped": dict(+skipped), "candidates": waiting})
        return
    typer.echo(f"Questions added to {name}: {added}. Candidates without an answer: {waiting}.")
    for reason, count in (+skipped).most_common():
        typer.echo(f"  {count:>5} left out: {reason}")
    if waiting:
        typer.echo("Mark their answers on the page Label: surefind serve.")


def queries(
    clear: Annotated[bool, typer.Option("--clear", help="Delete all kept queries.")] = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """List the queries that searches have kept, newest first.

    A search keeps its query only if surefind.toml says `keep_queries = true` below `[exam]`. Queries older than
    `keep_days` are deleted.
    """
    log, keeps = _log(kb)
    if clear:
        count = log.clear()
        print_json({"deleted": count}) if as_json else typer.echo(f"Deleted {count} kept queries.")
        return
    kept = log.all()
    if as_json:
        print_json(kept)
        return
    for logged in kept:
        first = logged.hits[0]["document"] if logged.hits else "-"
        typer.echo(f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(logged.at))}  {logged.query}  ->  {first}")
    if not kept:
        on = "No query has been kept yet." if keeps else "Queries are not kept."
        typer.echo(f"{on} To keep them, write keep_queries = true below [exam] in surefind.toml.")
