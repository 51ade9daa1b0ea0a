"""`surefind llm check`: whether a language model is fit for the steps that use one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from surefind.doors.cli._common import HERE, Folder, Json, print_json, progress
from surefind.doors.cli._groups import command_group
from surefind.doors.cli._money import Budget, Yes, agree

app = command_group("Check a language model.")


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="llm")


@app.callback()
def _llm() -> None:
    """Keeps `check` a command of its own, although it is the only one."""


@app.command("check")
def check(
    model: Annotated[
        str,
        typer.Argument(
            help="The language model: openai:…, anthropic:…, ollama:… (see surefind help llm).",
            show_default="[llm] model",
        ),
    ] = "",
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="A task: order, judge, gather, weigh, draft, rewrite, split, place, extract, question, answer; may be "
            "repeated.",
            show_default="all of them",
        ),
    ] = None,
    budget: Budget = None,
    yes: Yes = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Ask a language model small tasks with known answers, and say for which steps it is fit.

    The tasks are asked with the prompts of the steps: order shuffled passages, judge one, find evidence, weigh methods,
    draft and reword, split a text, place a passage, extract names, write a question, answer from passages. fit means
    clearly better than the search without the step, unfit no better than chance. The result is stored: bench, sync and
    train refuse an unfit model, and doctor shows it.
    """
    from surefind.base.redact import redacted
    from surefind.kb import KnowledgeBase
    from surefind.lab.fitness.check import check_model, cost, kinds_named
    from surefind.lab.fitness.kinds import KINDS

    kinds = kinds_named(only or [])
    with KnowledgeBase.open(kb) as base:
        agree(base, cost(model or None, kinds), budget, yes, as_json)
        with progress(quiet=as_json) as report:
            checked = check_model(base, model or None, kinds, report)
        name, spent = redacted(base.services.chat_name(model or None)), str(base.services.llm.meter.spent)
    rows: list[dict[str, Any]] = [
        {
            "task": kind, "steps": list(KINDS[kind].steps), "verdict": task.verdict, "figure": task.figure,
            "right": task.right, "tasks": task.tasks, "chance": task.chance, "useful": task.useful, "bias": task.bias,
            "why": task.why,
        }
        for kind, task in checked.items()
    ]  # fmt: skip
    if as_json:
        print_json({"model": name, "results": rows, "spent": spent})
        return
    typer.echo(f"{name}: {spent}.")
    for row in rows:
        why = f"  ({row['why']})" if row["why"] else ""
        typer.echo(f"  {row['verdict']:<9} {', '.join(row['steps']):<28} {row['figure']}{why}")
