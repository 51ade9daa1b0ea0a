"""`surefind exam feedback`: makes an exam of the thumbs and clicks that `surefind serve` has kept."""

from __future__ import annotations

import typer

from surefind.doors.cli._common import HERE, Folder, Json, print_json


def register(app: typer.Typer) -> None:
    app.command("feedback")(feedback)


def feedback(kb: Folder = HERE, as_json: Json = False) -> None:
    """Make the exam `feedback` of the thumbs and clicks that people gave over HTTP."""
    from surefind.kb import KnowledgeBase
    from surefind.lab.exam.feedback import grow

    with KnowledgeBase.open(kb) as base:
        exam, gone = grow(base)
    if as_json:
        version, count = (exam.version, len(exam.queries)) if exam else (None, 0)
        print_json({"exam": exam.name if exam else None, "version": version, "questions": count, "gone": gone})
        return
    if exam is None:
        typer.echo("There is no feedback yet that says which passage answers a question. See: surefind help http.")
    else:
        typer.echo(f"The exam {exam.label} has {len(exam.queries)} questions.")
    if gone:
        typer.echo(f"{gone} judgments were left out: their passages are gone.")
