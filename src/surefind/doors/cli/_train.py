"""Code shared by the `surefind train` commands: options, the exam, the table of results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.doors.cli import _complete
from surefind.doors.cli._common import console

if TYPE_CHECKING:
    from surefind.lab.exam.model import Exam
    from surefind.lab.train.report import Judged

ExamName = Annotated[
    str,
    typer.Option(
        "--exam", help="An exam from `surefind exam list`: NAME or NAME@VERSION.", autocompletion=_complete.exams
    ),
]
MeasureName = Annotated[str, typer.Option("--measure", "-m", help="The rank measure to improve: nDCG@10, RR@10:span …")]


def load_exam(kb: Path, name: str) -> Exam:
    from surefind.kb.settings.config import DATA_FOLDER
    from surefind.lab.exam.store import ExamStore

    return ExamStore(kb.resolve() / DATA_FOLDER / "exams").load(name)


def say_questions(made: Judged) -> None:
    counts = made.questions
    typer.echo(f"{made.exam.name}: {counts.tuning} questions for training, {counts.held_out} held out for testing.")


def show_table(made: Judged, of: str = "the held-out half") -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column(of)
    for heading in (f"{made.measure} [95%]", "gain [95%]", "p (Holm)"):
        table.add_column(heading, justify="right")
    for row in made.rows:
        gain = "" if row.gain is None else f"{row.gain:+.3f} [{row.gain_low:+.3f}, {row.gain_high:+.3f}]"
        p = "" if row.p is None else f"{row.p:.4f}"
        table.add_row(row.name, f"{row.mean:.3f} [{row.low:.3f}, {row.high:.3f}]", gain, p)
    console().print(table)
