"""`surefind ask`: answers a question, with the passages behind every sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from surefind.doors.cli._common import HERE, Folder, Json, Readers, print_json
from surefind.doors.cli._money import Budget, agree
from surefind.doors.cli.search import MinConfidence, PipelineName, query_of

if TYPE_CHECKING:
    from surefind.kb.answer.values import Answer


def register(app: typer.Typer) -> None:
    app.command("ask")(ask)


def ask(
    question: Annotated[
        list[str] | None, typer.Argument(help="The question; quotes are optional.", show_default=False)
    ] = None,
    pipeline: PipelineName = None,
    model: Annotated[
        str | None,
        typer.Option("--llm", help="The language model, such as ollama:llama3.2.", show_default="[llm] model"),
    ] = None,
    quote: Annotated[bool, typer.Option("--quote", help="Quote the best sentences; ask no model.")] = False,
    min_confidence: MinConfidence = None,
    groups: Readers = None,
    budget: Budget = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Answer a question from the documents. The exit code is 1 if they do not answer it.

    With a language model in surefind.toml, it writes the answer; every sentence cites passages and is checked against
    them. Without one, the answer quotes the best sentences.
    """
    from surefind.base.access import Access
    from surefind.kb import KnowledgeBase
    from surefind.kb.answer.answering import steps
    from surefind.kb.answer.values import Answer, Cited

    text = query_of(question or [])
    access = Access.of(*(groups or []))
    with KnowledgeBase.open(kb, once=True) as base:
        agree(base, [], budget, yes=True)
        for step in steps(
            base, text, access, pipeline=pipeline, model=model, quote=quote, min_confidence=min_confidence
        ):
            if isinstance(step.value, Cited) and not as_json:
                marks = "".join(f" [{rank}]" for rank in step.value.citations)
                typer.echo(f"{step.value.text}{marks}")
    assert isinstance(step.value, Answer)
    print_json(step.value.to_dict()) if as_json else _show(step.value)
    if not step.value.answered:
        raise typer.Exit(1)


def _show(answer: Answer) -> None:
    from surefind.doors.cli._hits import place
    from surefind.kb.answer.values import NOT_HERE

    if not answer.answered:
        closest = f" Closest: {answer.closest.title or answer.closest.document}" if answer.closest else ""
        typer.echo(f"{NOT_HERE}{closest}")
    for hit in answer.cited:
        typer.echo(f"[{hit.rank}] {hit.title}  {place(hit)}")
    if answer.answered:
        how = f"written by {answer.model}" if answer.model else "quoted, no language model was used"
        typer.echo(f"{answer.sure.capitalize()}; {how}." if answer.sure else f"{how.capitalize()}.")
    if answer.dropped:
        typer.echo(
            f"{len(answer.dropped)} sentences of the model were left out: their passages do not say them.", err=True
        )
    if answer.note:
        typer.echo(answer.note, err=True)
