"""`surefind train encoder | reranker | undo`: models made for this knowledge base, used only if they are better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from surefind.serve.cli import _complete
from surefind.serve.cli._common import HERE, Folder, Json, print_json, progress
from surefind.serve.cli._money import Budget, Yes, agree
from surefind.serve.cli._train import ExamName, MeasureName, load_exam, say_questions, show_table

if TYPE_CHECKING:
    from surefind.kb import KnowledgeBase
    from surefind.train.job import Job

Name = Annotated[str, typer.Option("--name", help="What to call it.", show_default="KIND-EXAM")]
PipelineName = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        "-p",
        help="The pipeline to improve.",
        show_default="the one that answers",
        autocompletion=_complete.pipelines,
    ),
]
Source = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        help="exam, headings, links, llm: where pairs come from; may be repeated.",
        show_default="exam, headings, links",
    ),
]
Start = Annotated[
    str, typer.Option("--start", help="A folder with the weights to start from.", show_default="the bundled model")
]
Epochs = Annotated[int, typer.Option("--epochs", help="Passes over the pairs.")]
Batch = Annotated[int, typer.Option("--batch", help="Pairs in a step.")]
Rate = Annotated[float, typer.Option("--rate", help="The highest learning rate.")]
Negatives = Annotated[int, typer.Option("--negatives", help="Hard negatives for each pair.")]
Most = Annotated[int, typer.Option("--most", help="Pairs to learn from at most.")]
Tokens = Annotated[int, typer.Option("--tokens", help="Tokens read of a text (of question and passage together).")]
Share = Annotated[float, typer.Option("--share", help="How much of the result is trained; the rest stays as it was.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda …", show_default="a GPU if there is one")]
Model = Annotated[str, typer.Option("--llm", help="Who writes questions with --from llm.", show_default="[llm] model")]
Write = Annotated[str, typer.Option("--write", help="What it writes: questions or triplets.")]
Use = Annotated[bool, typer.Option("--use", help="If it is better, put it into surefind.toml.")]


def register(app: typer.Typer) -> None:
    app.command("encoder")(encoder)
    app.command("reranker")(reranker)
    app.command("undo")(undo)


def encoder(
    exam: ExamName,
    name: Name = "",
    pipeline: PipelineName = None,
    source: Source = None,
    loss: Annotated[str, typer.Option("--loss", help="multiple-negatives or triplet.")] = "multiple-negatives",
    start: Start = "",
    epochs: Epochs = 1,
    batch: Batch = 16,
    rate: Rate = 2e-5,
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
    """Train the encoder of a pipeline on your own documents, and say whether search gets better.

    Pairs come from the tuning half of an exam, from headings and from links; negatives are what the retrievers find in
    other documents. The held-out half decides: a model that is not better beyond noise is not kept. Stopped, it goes on
    where it was. Needs pip install 'surefind[train]'.
    """
    given = {
        "loss": loss, "start": start, "epochs": epochs, "batch": batch, "rate": rate, "negatives": negatives,
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
    negatives: Negatives = 5,
    most: Most = 1000,
    tokens: Tokens = 256,
    share: Share = 0.5,
    blend: Annotated[float, typer.Option("--blend", help="How much its score counts.")] = 0.5,
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
    """Train a cross-encoder on your own documents, and say whether reranking with it pays.

    As `train encoder`; it must beat the pipeline without a reranker.
    """
    given = {
        "start": start, "epochs": epochs, "batch": batch, "rate": rate, "negatives": negatives, "most": most,
        "max_tokens": tokens, "share": share, "blend": blend, "device": device, "llm": llm, "write": write,
    }  # fmt: skip
    _train("reranker", exam, name, pipeline, source, given, measure, use, (budget, yes), kb, as_json)


def undo(
    name: Annotated[str, typer.Argument(help="The model that was put to use.")],
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Take a trained model out of surefind.toml again: the file becomes what it was before --use."""
    from surefind.kb import KnowledgeBase
    from surefind.train.adopt import undo as take_back

    with KnowledgeBase.open(kb) as base:
        take_back(base.folder, base.data / "models" / name, name)
    if as_json:
        print_json({"undone": name})
        return
    typer.echo(f"surefind.toml is as it was before {name}. The model is kept: put it to use again by hand.")


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
    from surefind.measure.names import parse_measure
    from surefind.train.adopt import check_free
    from surefind.train.fusion import check_name
    from surefind.train.job import Job
    from surefind.train.neural import train_model
    from surefind.train.pairs import SOURCES

    with KnowledgeBase.open(kb) as base, progress(quiet=as_json) as report:
        questions = load_exam(kb, exam)
        name = name or f"{kind}-{questions.name}"
        check_name(name)
        job = Job(kind, name, tuple(source or SOURCES), **given)
        if use:
            check_free(base.folder, name)
        improved = base.pipeline(pipeline)
        made = train_model(
            base, questions, job, improved, parse_measure(measure), report,
            agree=lambda calls: agree(base, [calls], *money, as_json),
        )  # fmt: skip
        used = bool(use and made["better"])
        if used:
            _put_to_use(base, job, made)
    if as_json:
        print_json({**made, "used": used})
        return
    _say(made, use, used)


def _put_to_use(base: KnowledgeBase, job: Job, made: dict[str, Any]) -> None:
    from surefind.search.pipeline import Pipeline
    from surefind.train.adopt import adopt

    adopt(base.folder, base.data / "models" / job.name, job.name, Pipeline.parse(made["use"]))


def _say(made: dict[str, Any], wanted: bool, used: bool) -> None:
    say_questions(made)
    pairs = ", ".join(f"{count} from {source}" for source, count in made["pairs"].items())
    loss = made["loss"]
    typer.echo(
        f"Learned from {pairs}, starting from {made['start']}: {loss['steps']} steps in "
        f"{made['training_seconds']:.0f} s, loss {loss['first']:.3f} to {loss['last']:.3f}."
    )
    show_table(made)
    typer.echo(made["verdict"])
    if used:
        typer.echo(f"surefind.toml uses it now. Take it back with: surefind train undo {made['name']}")
    elif made["better"]:
        typer.echo(f"Pipeline: {made['use']}")
    else:
        typer.echo("The model is not kept." + (" surefind.toml is as it was." if wanted else ""))
