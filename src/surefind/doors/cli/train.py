"""`surefind train`: learns fusion weights from one half of an exam and measures them on the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from surefind.base.errors import UsageError
from surefind.doors.cli import train_models, train_prompt
from surefind.doors.cli._common import HERE, Folder, Json, print_json, progress, tell_problems
from surefind.doors.cli._groups import command_group
from surefind.doors.cli._train import ExamName, MeasureName, load_exam, say_questions, show_table
from surefind.doors.cli.search import Retrieve

if TYPE_CHECKING:
    from surefind.lab.train.material import Split

app = command_group("Train fusion weights, prompts, encoders and rerankers on an exam.")
MissingScores = Annotated[
    str,
    typer.Option(
        "--missing",
        help="The score of a candidate that a retriever did not return: `score` computes it, `floor` takes the "
        "retriever's lowest; `auto` is floor for ridge, xgboost and mlp, else score.",
    ),
]
_MAX_PRINTED_FEATURES = 8


def register(parent: typer.Typer) -> None:
    parent.add_typer(app, name="train", rich_help_panel=None)


@app.command("fusion")
def fusion(
    exam: ExamName,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="The kind of model: ridge, xgboost and mlp predict the study's α*; ndcg chooses weights that maximise "
            "the measure, for any number of retrievers.",
        ),
    ] = "ndcg",
    retrieve: Retrieve = None,
    name: Annotated[str, typer.Option("--name", help="The name of the trained model.", show_default="MODEL-EXAM")] = "",
    measure: MeasureName = "nDCG@10",
    missing: MissingScores = "auto",
    cross: Annotated[
        bool,
        typer.Option(
            "--cross",
            help="Test on both halves, each with a model trained on the other: twice the questions, twice the time.",
        ),
    ] = False,
    split: Annotated[
        str,
        typer.Option(
            "--split",
            help="How the questions are divided: `halves` keeps the questions about a document together; `70/15/15` is "
            "the study's, at random.",
        ),
    ] = "halves",
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Train a model that weighs the retrievers for each query, and test whether it beats static weights.

    One half of the questions is used for training, the other only for testing. The model is saved with the knowledge
    base: use it as `learned(model=NAME, missing=score)`. Without --retrieve, it weighs bm25 and dense.
    """
    from surefind.kb import KnowledgeBase
    from surefind.lab.measure.names import parse_measure
    from surefind.lab.train.fusion import train_fusion

    with KnowledgeBase.open(kb) as base, progress(quiet=as_json) as report:
        tell_problems(base)
        questions = load_exam(kb, exam)
        made = train_fusion(
            base, questions, model, retrieve or ("bm25", "dense"), name, parse_measure(measure), _missing(missing),
            cross, report, cast("Split", split),
        )  # fmt: skip
        place = base.data / "models" / made.name
    if as_json:
        from surefind.base.disk.records import to_json

        print_json({**to_json(made), "folder": str(place)})
        return
    say_questions(made)
    chosen = ", ".join(f"{key} {value}" for key, value in made.hyperparameters.items())
    typer.echo(f"{made.model}: {chosen}; trained in {made.training_seconds:.1f} s.")
    show_table(made, made.judged)
    _metrics(made.metrics)
    typer.echo(made.verdict)
    if made.use:
        typer.echo(f"Pipeline: {made.use}")
    typer.echo(f"Saved: {place}")
    typer.echo(f"Questions of the exam {made.exam.name} were used for training: surefind bench uses only the others.")


@app.command("weights")
def weights(
    exam: ExamName,
    retrieve: Retrieve = None,
    measure: MeasureName = "nDCG@10",
    missing: MissingScores = "auto",
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Find static weights for any number of retrievers on one half of an exam, and test them on the other."""
    from surefind.kb import KnowledgeBase
    from surefind.lab.measure.names import parse_measure
    from surefind.lab.train.weights import train_weights

    with KnowledgeBase.open(kb) as base, progress(quiet=as_json) as report:
        tell_problems(base)
        questions = load_exam(kb, exam)
        made = train_weights(
            base, questions, retrieve or ("bm25", "dense"), parse_measure(measure), _missing(missing), report
        )
    if as_json:
        from surefind.base.disk.records import to_json

        print_json(to_json(made))
        return
    say_questions(made)
    show_table(made)
    typer.echo(made.verdict)
    if made.useless:
        typer.echo(f"Zero weight: {', '.join(made.useless)}. Leave it out of the pipeline to save search time.")
    typer.echo(f"Spec: {made.spec}")
    typer.echo(f"Pipeline: {made.use}")


@app.command("list")
def list_models(kb: Folder = HERE, as_json: Json = False) -> None:
    """List the trained models, and say which are out of date."""
    from surefind.kb import KnowledgeBase
    from surefind.lab.train.listing import trained_things

    with KnowledgeBase.open(kb) as base:
        things = trained_things(base)
    if as_json:
        print_json([thing.data for thing in things])
        return
    for thing in things:
        typer.echo(f"{thing.name:<24} {thing.text}")
    if not things:
        typer.echo("No trained models yet. Train one with: surefind train fusion --exam known-item.")


def _missing(text: str) -> Literal["auto", "score"] | None:
    known: dict[str, Literal["auto", "score"] | None] = {"auto": "auto", "score": "score", "floor": None}
    if text not in known:
        raise UsageError(f"--missing must be score, floor or auto, not {text!r}.")
    return known[text]


def _metrics(metrics: Mapping[str, Any]) -> None:
    fits = [f"{key.removeprefix('r2_')} {value:.3f}" for key, value in metrics.items() if key.startswith("r2_")]
    if fits:
        typer.echo(f"R² to α*: {', '.join(fits)}.")
    for key, label in (("shap", "Mean |SHAP|"), ("coefficients", "Coefficients")):
        shown = list(metrics.get(key, {}).items())[:_MAX_PRINTED_FEATURES]
        if shown:
            typer.echo(f"{label}: {', '.join(f'{name} {value:.4f}' for name, value in shown)}.")


train_prompt.register(app)
train_models.register(app)
