"""`surefind train prompt`: examples and a better system prompt for a model that reranks or weighs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefind.serve.cli import _complete
from surefind.serve.cli._common import HERE, Folder, Json, print_json, progress
from surefind.serve.cli._money import Budget, Yes, agree
from surefind.serve.cli.search import Retrieve

if TYPE_CHECKING:
    from surefind.exam.model import Exam
    from surefind.kb import KnowledgeBase
    from surefind.protocols import OnProgress


def register(app: typer.Typer) -> None:
    app.command("prompt")(prompt)


def prompt(
    exam: Annotated[
        str,
        typer.Option(
            "--exam", help="An exam of `surefind exam list`, or NAME@VERSION.", autocompletion=_complete.exams
        ),
    ],
    step: Annotated[
        str, typer.Option("--step", help="llm_listwise (its example and system prompt) or llm_weights (its examples).")
    ] = "llm_listwise",
    model: Annotated[
        str | None,
        typer.Option(
            "--model", help="openai:…, anthropic:…, ollama:… (surefind help llm).", show_default="[llm] model"
        ),
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(
            "--pipeline",
            "-p",
            help="What is reranked: a name or a spec.",
            show_default="the one that answers",
            autocompletion=_complete.pipelines,
        ),
    ] = None,
    top: Annotated[int, typer.Option("--top", help="Passages that the model sees.")] = 50,
    keep: Annotated[int, typer.Option("--keep", help="Passages that it names.")] = 10,
    sample: Annotated[int, typer.Option("--sample", help="Questions of the tuning half to go through.")] = 100,
    rounds: Annotated[int, typer.Option("--rounds", help="The most times that the prompt is rewritten.")] = 8,
    retrieve: Retrieve = None,
    name: Annotated[str, typer.Option("--name", help="What to call it.", show_default="STEP-EXAM")] = "",
    budget: Budget = None,
    yes: Yes = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Learn a prompt from an exam's tuning half: the hardest example and a system prompt improved on failures
    (meta-prompting), or for llm_weights the questions on which weights matter most.

    The prompt is kept with the knowledge base; `surefind bench` says on the other half whether it pays.
    """
    from surefind.config import DATA_FOLDER
    from surefind.exam.store import ExamStore
    from surefind.kb import KnowledgeBase
    from surefind.measure.names import parse_measure
    from surefind.train.prompt import check_name
    from surefind.train.weight_examples import weigh_examples

    questions = ExamStore(kb.resolve() / DATA_FOLDER / "exams").load(exam)
    name = name or f"{step}-{questions.name}"
    check_name(name, step)
    with KnowledgeBase.open(kb) as base, progress(quiet=as_json) as report:
        if step == "llm_weights":
            made = weigh_examples(
                base, questions, retrieve or ("bm25", "dense"), name, parse_measure("nDCG@10"), report
            )
        else:
            chosen = {"model": model, "top": top, "keep": keep, "sample": sample, "rounds": rounds}
            made = _listwise(base, questions, pipeline, name, chosen, (budget, yes, as_json), report)
        spent = str(base.services.llm.meter.spent)
    if as_json:
        print_json({**made, "spent": spent})
        return
    _show(made, spent)


def _listwise(
    base: KnowledgeBase,
    questions: Exam,
    pipeline: str | None,
    name: str,
    chosen: dict[str, Any],
    money: tuple[float | None, bool, bool],
    report: OnProgress | None,
) -> dict[str, Any]:
    from dataclasses import replace

    from surefind import spec
    from surefind.rerank.llm_listwise import LLMListwise
    from surefind.train.prompt import ListwiseTrainer

    stage = spec.build(LLMListwise, {key: chosen[key] for key in ("model", "top", "keep")})
    head = replace(base.pipeline(pipeline), rerank=())
    trainer = ListwiseTrainer(base, questions, head, stage, chosen["sample"], chosen["rounds"], report)
    budget, yes, quiet = money
    agree(base, [trainer.calls()], budget, yes, quiet)
    return trainer.train(name)


def _show(made: dict[str, Any], spent: str) -> None:
    if made["step"] == "llm_weights":
        for example in made["examples"]:
            weights = ", ".join(f"{name} {weight:.2f}" for name, weight in example["weights"].items())
            typer.echo(f"  {weights:<32} {example['query'][:80]}")
    else:
        counts = made["questions"]
        typer.echo(f"{counts['sampled']} questions, {counts['reranked']} of them worth reranking; {spent}.")
        for failure in made["failures"]:
            better = "prompt rewritten" if failure["system_prompt"] else "no usable prompt came of it"
            typer.echo(f"  lost {failure['gap']:.2f} recall, {better}: {failure['query'][:80]}")
        if made["hardest"]:
            typer.echo(f"Hardest example: {made['hardest'][:100]}")
    if not made["use"]:
        typer.echo("Nothing to learn: no question was lost, or none on which it matters. No prompt was saved.")
        return
    typer.echo(f"Use: {made['use']}")
    learnt = made["questions"].get("sampled") or made["questions"]["tuning"]
    typer.echo(f"{learnt} questions of {made['exam']['name']} were learned from: surefind bench asks only the others.")
