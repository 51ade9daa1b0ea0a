"""`surefind exam collect | queries | grow`: makes an exam of questions that people really asked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.errors import ExamError
from surefind.serve.cli import _complete
from surefind.serve.cli._common import HERE, Folder, Json, print_json

if TYPE_CHECKING:
    from surefind.exam.store import ExamStore

Name = Annotated[
    str, typer.Argument(help="The exam that grows; it need not exist yet.", autocompletion=_complete.exams)
]


def register(app: typer.Typer) -> None:
    app.command("collect")(collect)


def _store(kb: Path) -> ExamStore:
    from surefind.config import DATA_FOLDER
    from surefind.exam.store import ExamStore

    return ExamStore(kb.resolve() / DATA_FOLDER / "exams")


def collect(
    name: Name,
    files: Annotated[list[Path], typer.Argument(help="CSV, TSV, JSONL or JSON files, or text with a question a line.")],
    column: Annotated[
        str,
        typer.Option(
            "--column",
            help="The column with the questions; a number if the table has no header.",
            show_default="question, query, text, subject, title, body or message",
        ),
    ] = "",
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Collect questions from search logs, chat exports, tickets and FAQ tables, without answers.

    They become candidates: `surefind exam grow NAME` asks you which passages answer them. Greetings, texts with fewer
    than two content words, texts longer than 400 characters and repeats are left out and counted.
    """
    from surefind.exam.formats.questions import read_questions

    texts = {path: read_questions(path, column) for path in files}
    candidates = _store(kb).candidates(name)
    added, skipped = 0, Counter[str]()
    for path, found in texts.items():
        made = candidates.collect(found, path.name)
        added += len(made.added)
        skipped += made.skipped
    if not any(texts.values()):
        raise ExamError(f"{', '.join(map(str, files))}: there are no texts in it.")
    waiting = sum(not candidate.verdict for candidate in candidates.all())
    if as_json:
        print_json({"name": name, "added": added, "skipped": dict(skipped), "candidates": waiting})
        return
    typer.echo(f"{added} questions added to the candidates of {name}, which are now {waiting}.")
    for reason, count in skipped.most_common():
        typer.echo(f"  {count:>5} left out: {reason}")
    if waiting:
        typer.echo(f"Mark their answers with: surefind exam grow {name}.")
