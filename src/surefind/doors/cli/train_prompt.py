"""`surefind train prompt`: learns examples and a system prompt for a language model that reranks or weighs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefind.doors.cli import _complete
from surefind.doors.cli._common import HERE, Folder, Json, print_json, progress, tell_problems
from surefind.doors.cli._money import Budget, Yes, agree
from surefind.doors.cli.search import Retrieve

if TYPE_CHECKING:
    from surefind.base.protocols import OnProgress
    from surefind.kb import KnowledgeBase
    from surefind.lab.exam.model import Exam
    from surefind.lab.train.report import ExamplesReport, ListwiseReport


def register(app: typer.Typer) -> None:
    app.command("prompt")(prompt)


def prompt(
    exam: Annotated[
        str,
        typer.Option(
            "--exam", help="An exam from `surefind exam list`: NAME or NAME@VERSION.", autocompletion=_complete.exams
        ),
    ],
    step: Annotated[
        str,
        typer.Option(
            "--step", help="The stage to train: llm_listwise (example and system prompt) or llm_weights (examples)."
        ),
    ] = "llm_listwise",
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help="The language model: openai:…, anthropic:…, ollama:… (see surefind help llm).",
            show_default="[llm] model",
        ),
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(
            "--pipeline",
            "-p",
            help="The pipeline whose results are reranked: a name or a spec.",
            show_default="the default pipeline",
            autocompletion=_complete.pipelines,
        ),
    ] = None,
    top: Annotated[int, typer.Option("--top", help="Passages shown to the model.")] = 50,
    keep: Annotated[int, typer.Option("--keep", help="Passages that the model picks.")] = 10,
    sample: Annotated[int, typer.Option("--sample", help="Questions of the tuning half to try.")] = 100,
    rounds: Annotated[int, typer.Option("--rounds", help="The most times to rewrite the prompt.")] = 8,
    retrieve: Retrieve = None,
    name: Annotated[str, typer.Option("--name", help="The name of the trained prompt.", show_default="STEP-EXAM")] = "",
    budget: Budget = None,
    yes: Yes = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Learn a prompt from the tuning half of an exam.

    For llm_listwise, it learns the hardest example and a system prompt that is improved on failures (meta-prompting);
    for llm_weights, the questions on which weights matter most. The prompt is saved with the knowledge base. Measure it
    on the other half with `surefind bench`.
    """
    from surefind.kb import KnowledgeBase
    from surefind.kb.settings.config import DATA_FOLDER
    from surefind.lab.exam.store import ExamStore
    from surefind.lab.measure.names import parse_measure
    from surefind.lab.train.prompt import check_name
    from surefind.lab.train.weight_examples import weigh_examples

    questions = ExamStore(kb.resolve() / DATA_FOLDER / "exams").load(exam)
    name = name or f"{step}-{questions.name}"
    check_name(name, step)
    with KnowledgeBase.open(kb) as base, progress(quiet=as_json) as report:
        tell_problems(base)
        made: ListwiseReport | ExamplesReport
        if step == "llm_weights":
            made = weigh_examples(
                base, questions, retrieve or ("bm25", "dense"), name, parse_measure("nDCG@10"), report
            )
        else:
            chosen = {"model": model, "top": top, "keep": keep, "sample": sample, "rounds": rounds}
            made = _listwise(base, questions, pipeline, name, chosen, (budget, yes, as_json), report)
        spent = str(base.services.llm.meter.spent)
    if as_json:
        from surefind.base.disk.records import to_json

        print_json({**to_json(made), "spent": spent})
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
) -> ListwiseReport:
    from surefind.base import spec
    from surefind.engine.rerank.llm_listwise import LLMListwise
    from surefind.lab.bench.names import find_pipeline
    from surefind.lab.fitness.check import check_calls, require_fit
    from surefind.lab.fitness.kinds import needs_of
    from surefind.lab.train.prompt import ListwiseTrainer

    stage = spec.build(LLMListwise, {key: chosen[key] for key in ("model", "top", "keep")})
    head = replace(find_pipeline(base, pipeline), rerank=())
    trainer = ListwiseTrainer(base, questions, head, stage, chosen["sample"], chosen["rounds"], report)
    budget, yes, quiet = money
    needs = needs_of([stage])
    agree(base, [trainer.calls(), *check_calls(base, needs)], budget, yes, quiet)
    require_fit(base, needs, report)
    return trainer.train(name)


def _show(made: ListwiseReport | ExamplesReport, spent: str) -> None:
    from surefind.lab.train.report import ExamplesReport

    if isinstance(made, ExamplesReport):
        for example in made.examples:
            weights = ", ".join(f"{name} {weight:.2f}" for name, weight in example.weights.items())
            typer.echo(f"  {weights:<32} {example.query[:80]}")
    else:
        counts = made.questions
        typer.echo(f"{counts.sampled} questions, {counts.reranked} of them worth reranking; {spent}.")
        for failure in made.failures:
            better = "prompt rewritten" if failure.system_prompt else "the rewritten prompt was unusable"
            typer.echo(f"  lost {failure.gap:.2f} recall, {better}: {failure.query[:80]}")
        if made.hardest:
            typer.echo(f"Hardest example: {made.hardest[:100]}")
    if not made.use:
        typer.echo("Nothing to learn: reranking lost no answer, or weights made no difference. No prompt was saved.")
        return
    typer.echo(f"Use: {made.use}")
    learnt = made.questions.tuning if isinstance(made, ExamplesReport) else made.questions.sampled
    typer.echo(
        f"{learnt} questions of the exam {made.exam.name} were used for training: surefind bench uses only the others."
    )
