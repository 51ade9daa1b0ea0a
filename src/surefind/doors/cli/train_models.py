"""`surefind train encoder | reranker`: trains models for this knowledge base and keeps those that are better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from surefind.doors.cli import _complete
from surefind.doors.cli._adopt import UNDO
from surefind.doors.cli._common import HERE, Folder, Json, print_json, progress, tell_problems
from surefind.doors.cli._money import Budget, Yes, agree
from surefind.doors.cli._train import ExamName, MeasureName, load_exam, say_questions, show_table

if TYPE_CHECKING:
    from surefind.base.prompts.values import Calls
    from surefind.base.protocols import OnProgress
    from surefind.kb import KnowledgeBase
    from surefind.lab.train.job import TrainingJob
    from surefind.lab.train.report import ModelReport

Name = Annotated[str, typer.Option("--name", help="The name of the trained model.", show_default="KIND-EXAM")]
PipelineName = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        "-p",
        help="The pipeline to improve.",
        show_default="the default pipeline",
        autocompletion=_complete.pipelines,
    ),
]
Source = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        help="A source of training pairs: exam, headings, links or llm; may be repeated.",
        show_default="exam, headings, links",
    ),
]
Start = Annotated[
    str, typer.Option("--start", help="A folder with the weights to start from.", show_default="the bundled model")
]
Epochs = Annotated[int, typer.Option("--epochs", help="Passes over the training pairs.")]
Batch = Annotated[int, typer.Option("--batch", help="Pairs per training step.")]
Rate = Annotated[float, typer.Option("--rate", help="The highest learning rate.")]
Warmup = Annotated[
    int,
    typer.Option("--warmup", help="Steps in which the learning rate rises.", show_default="a tenth of all steps"),
]
Negatives = Annotated[int, typer.Option("--negatives", help="Hard negatives per pair.")]
Most = Annotated[int, typer.Option("--most", help="The most pairs to train on.")]
Tokens = Annotated[
    int, typer.Option("--tokens", help="The most tokens of a text; for rerankers, of question and passage together.")
]
Share = Annotated[
    float,
    typer.Option("--share", help="The share of the trained weights in the final model; the rest are the old weights."),
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda …", show_default="a GPU if there is one")]
Model = Annotated[
    str,
    typer.Option("--llm", help="The language model that writes questions for --from llm.", show_default="[llm] model"),
]
Write = Annotated[str, typer.Option("--write", help="What the language model writes: questions or triplets.")]
Use = Annotated[bool, typer.Option("--use", help="Put the model into surefind.toml if it is better.")]


def register(app: typer.Typer) -> None:
    app.command("encoder")(encoder)
    app.command("reranker")(reranker)


def encoder(
    exam: ExamName,
    name: Name = "",
    pipeline: PipelineName = None,
    source: Source = None,
    loss: Annotated[
        str,
        typer.Option(
            "--loss",
            help="The loss: multiple-negatives, triplet, or margin-mse, by labels of the bundled reranker (GPL).",
        ),
    ] = "multiple-negatives",
    start: Start = "",
    epochs: Epochs = 1,
    batch: Batch = 16,
    rate: Rate = 2e-5,
    warmup: Warmup = 0,
    negatives: Negatives = 2,
    most: Most = 2000,
    tokens: Tokens = 256,
    share: Share = 0.5,
    device: Device = "",
    llm: Model = "",
    write: Write = "questions",
    budget: Budget = None,
    yes: Yes = False,
    measure: MeasureName = "nDCG@10",
    use: Use = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Train the encoder of a pipeline on your own documents, and test whether search gets better.

    Pairs come from the tuning half of an exam, from headings and from links; negatives are passages that the retrievers
    find in other documents. The held-out half decides: a model that is not significantly better is not kept. A stopped
    run continues from where it stopped. Needs pip install 'surefind[train]'.
    """
    given = {
        "loss": loss, "start": start, "epochs": epochs, "batch": batch, "rate": rate, "warmup": warmup,
        "negatives": negatives,
        "most": most, "max_tokens": tokens, "share": share, "device": device, "llm": llm, "write": write,
    }  # fmt: skip
    _train("encoder", exam, name, pipeline, source, given, measure, use, (budget, yes), kb, as_json)


def reranker(
    exam: ExamName,
    name: Name = "",
    pipeline: PipelineName = None,
    source: Source = None,
    start: Start = "",
    epochs: Epochs = 1,
    batch: Batch = 8,
    rate: Rate = 2e-5,
    warmup: Warmup = 0,
    negatives: Negatives = 5,
    most: Most = 1000,
    tokens: Tokens = 256,
    share: Share = 0.5,
    blend: Annotated[float, typer.Option("--blend", help="The weight of the reranker's score, from 0 to 1.")] = 0.5,
    device: Device = "",
    llm: Model = "",
    write: Write = "questions",
    budget: Budget = None,
    yes: Yes = False,
    measure: MeasureName = "nDCG@10",
    use: Use = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Train a cross-encoder on your own documents, and test whether it improves the ranking.

    It works like `train encoder`; the model must beat the pipeline without a reranker.
    """
    given = {
        "start": start, "epochs": epochs, "batch": batch, "rate": rate, "warmup": warmup, "negatives": negatives,
        "most": most,
        "max_tokens": tokens, "share": share, "blend": blend, "device": device, "llm": llm, "write": write,
    }  # fmt: skip
    _train("reranker", exam, name, pipeline, source, given, measure, use, (budget, yes), kb, as_json)


def _train(
    kind: Literal["encoder", "reranker"],
    exam: str,
    name: str,
    pipeline: str | None,
    source: list[str] | None,
    given: dict[str, Any],
    measure: str,
    use: bool,
    money: tuple[float | None, bool],
    kb: Any,
    as_json: bool,
) -> None:
    from surefind.kb import KnowledgeBase
    from surefind.kb.adoption import check_free
    from surefind.lab.bench.names import find_pipeline
    from surefind.lab.measure.names import parse_measure
    from surefind.lab.train.fusion import check_name
    from surefind.lab.train.job import TrainingJob
    from surefind.lab.train.neural import train_model
    from surefind.lab.train.pairs import SOURCES

    with KnowledgeBase.open(kb) as base, progress(quiet=as_json) as report:
        tell_problems(base)
        questions = load_exam(kb, exam)
        name = name or f"{kind}-{questions.name}"
        check_name(name)
        job = TrainingJob(kind, name, tuple(source or SOURCES), **given)
        if use:
            check_free(base.folder, name)
        improved = find_pipeline(base, pipeline)
        made = train_model(
            base, questions, job, improved, parse_measure(measure), report,
            agree=lambda calls: _agree(base, calls, money, as_json, report),
        )  # fmt: skip
        used = bool(use and made.better)
        if used:
            _put_to_use(base, job, made, report)
    if as_json:
        from surefind.base.disk.records import to_json

        print_json({**to_json(made), "used": used})
        return
    _say(made, use, used)


def _agree(
    base: KnowledgeBase, calls: Calls, money: tuple[float | None, bool], as_json: bool, report: OnProgress | None
) -> None:
    """Agrees on the cost of the questions that a model writes, and refuses a model that cannot write any."""
    from surefind.lab.fitness.check import check_calls, require_fit
    from surefind.lab.fitness.kinds import Need

    needs = [Need("train encoder", "question", calls.model or None)]
    agree(base, [calls, *check_calls(base, needs)], *money, as_json)
    require_fit(base, needs, report)


def _put_to_use(base: KnowledgeBase, job: TrainingJob, made: ModelReport, report: OnProgress | None) -> None:
    from surefind.engine.search.pipeline import Pipeline
    from surefind.kb.adoption import build, prepare, write

    change = prepare(base.folder, job.name, Pipeline.parse(made.use))
    build(base, change, report)
    write(base.folder, change)


def _say(made: ModelReport, wanted: bool, used: bool) -> None:
    say_questions(made)
    pairs = ", ".join(f"{count} from {source}" for source, count in made.pairs.items())
    loss = made.loss
    typer.echo(
        f"Trained on pairs ({pairs}), starting from {made.start}: {loss.steps} steps in "
        f"{made.training_seconds:.0f} s, loss {loss.first:.3f} to {loss.last:.3f}."
    )
    show_table(made)
    typer.echo(made.verdict)
    if used:
        typer.echo(f"surefind.toml uses the model now. Undo with: {UNDO}")
    elif made.better:
        typer.echo(f"Pipeline: {made.use}")
    else:
        typer.echo("The model was not kept." + (" surefind.toml is unchanged." if wanted else ""))
