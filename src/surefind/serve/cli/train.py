"""`surefind train`: weights learned on one half of an exam and judged on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from surefind.serve.cli import _complete
from surefind.serve.cli._common import HERE, Folder, Json, console, print_json, progress
from surefind.serve.cli.search import Retrieve

if TYPE_CHECKING:
    from pathlib import Path

    from surefind.exam.model import Exam

app = typer.Typer(
    help="Learn from an exam: how to weigh retrievers (fusion, weights), an encoder or a reranker of your own.",
    no_args_is_help=True,
)
ExamName = Annotated[
    str,
    typer.Option("--exam", help="An exam of `surefind exam list`, or NAME@VERSION.", autocompletion=_complete.exams),
]
MeasureName = Annotated[str, typer.Option("--measure", "-m", help="A rank measure: nDCG@10, RR@10:span …")]
MissingScores = Annotated[
    str,
    typer.Option(
        "--missing",
        help="What a candidate gets from a retriever that did not return it: that retriever's `score`, or its `floor` "
        "(auto: floor for ridge, xgboost and mlp).",
    ),
]
_SHOWN = 8


def register(parent: typer.Typer) -> None:
    from surefind.serve.cli import train_models, train_prompt

    train_prompt.register(app)
    train_models.register(app)
    parent.add_typer(app, name="train", rich_help_panel=None)


def load_exam(kb: Path, name: str) -> Exam:
    from surefind.config import DATA_FOLDER
    from surefind.exam.store import ExamStore

    return ExamStore(kb.resolve() / DATA_FOLDER / "exams").load(name)


@app.command("fusion")
def fusion(
    exam: ExamName,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="ridge, xgboost and mlp predict the study's α*; ndcg chooses weights for the measure itself; "
            "lambdamart reorders candidates for it.",
        ),
    ] = "lambdamart",
    retrieve: Retrieve = None,
    name: Annotated[str, typer.Option("--name", help="What to call it.", show_default="MODEL-EXAM")] = "",
    measure: MeasureName = "nDCG@10",
    missing: MissingScores = "auto",
    cross: Annotated[
        bool,
        typer.Option(
            "--cross", help="Judge on both halves, each by a model of the other: twice the questions and time."
        ),
    ] = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Train a model that weighs the retrievers anew for each query, and say whether it beats the best static weight.

    One half of the questions is learned from, the other is only reported on. The model is kept with the knowledge base:
    use it as `learned(model=NAME, missing=score)`. Without --retrieve: bm25 and dense.
    """
    from surefind.kb import KnowledgeBase
    from surefind.measure.names import parse_measure
    from surefind.train.fusion import train_fusion

    with KnowledgeBase.open(kb) as base, progress(quiet=as_json) as report:
        questions = load_exam(kb, exam)
        made = train_fusion(
            base, questions, model, retrieve or ("bm25", "dense"), name, parse_measure(measure), _missing(missing),
            cross, report,
        )  # fmt: skip
        place = base.data / "models" / made["name"]
    if as_json:
        print_json({**made, "folder": str(place)})
        return
    say_questions(made)
    chosen = ", ".join(f"{key} {value}" for key, value in made["hyperparameters"].items())
    typer.echo(f"{made['model']}: {chosen}; trained in {made['training_seconds']:.1f} s.")
    show_table(made)
    _metrics(made["metrics"])
    typer.echo(made["verdict"])
    typer.echo(f"Pipeline: {made['use']}")
    typer.echo(f"Saved: {place}")
    typer.echo(f"Half of {made['exam']['name']} was learned from: on it, surefind bench asks only the other half.")


@app.command("weights")
def weights(
    exam: ExamName,
    retrieve: Retrieve = None,
    measure: MeasureName = "nDCG@10",
    missing: MissingScores = "auto",
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Find static weights for any number of retrievers on one half of an exam, and judge them on the other."""
    from surefind.kb import KnowledgeBase
    from surefind.measure.names import parse_measure
    from surefind.train.weights import train_weights

    with KnowledgeBase.open(kb) as base, progress(quiet=as_json) as report:
        questions = load_exam(kb, exam)
        made = train_weights(
            base, questions, retrieve or ("bm25", "dense"), parse_measure(measure), _missing(missing), report
        )
    if as_json:
        print_json(made)
        return
    say_questions(made)
    show_table(made)
    typer.echo(made["verdict"])
    if made["useless"]:
        typer.echo(f"Without weight: {', '.join(made['useless'])}. Leave it out, and search asks it for nothing.")
    typer.echo(f"Spec: {made['spec']}")
    typer.echo(f"Pipeline: {made['use']}")


@app.command("list")
def list_models(kb: Folder = HERE, as_json: Json = False) -> None:
    """List the trained models, and whether what they were trained on has changed since."""
    from surefind.kb import KnowledgeBase
    from surefind.llm.trained import trained_prompts
    from surefind.train.fusion import manifests
    from surefind.train.neural import stopped_trainings, trained_models

    with KnowledgeBase.open(kb) as base:
        corpus = base.reader().fingerprint
        models = [*manifests(base), *trained_models(base), *stopped_trainings(base)]
        for prompt in trained_prompts(base.data / "models"):  # a prompt goes on working: it was only tried elsewhere
            drift = "documents changed since it was trained" if prompt["corpus"] != corpus else ""
            models.append({**prompt, "changed": [], "drift": drift})
    if as_json:
        print_json(models)
        return
    for made in models:
        if "unreadable" in made:
            typer.echo(f"{made['name']:<24} {made['unreadable']}")
            continue
        if "stopped" in made:
            typer.echo(f"{made['name']:<24} stopped: the same command goes on with it, or delete {made['stopped']}")
            continue
        refusal = f"refuses: {'; '.join(made['changed'])}; train again" if made["changed"] else ""
        state = refusal or made["drift"] or "up to date"
        where = made.get("pipeline") or " + ".join(retriever["spec"] for retriever in made["retrievers"])
        kind = made.get("step") or made["model"]
        typer.echo(f"{made['name']:<24} {kind:<12} {made['exam']['name']:<18} {where}  {state}")
    if not models:
        typer.echo("No trained models yet. Train one with: surefind train fusion --exam known-item.")


def _missing(text: str) -> Literal["auto", "score"] | None:
    from surefind.errors import UsageError

    known: dict[str, Literal["auto", "score"] | None] = {"auto": "auto", "score": "score", "floor": None}
    if text not in known:
        raise UsageError(f"--missing must be score, floor or auto, not {text!r}.")
    return known[text]


def say_questions(made: dict[str, Any]) -> None:
    counts = made["questions"]
    typer.echo(
        f"{made['exam']['name']}: {counts['tuning']} questions to learn from, {counts['held_out']} held out to judge."
    )


def show_table(made: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column(made.get("judged", "the held-out half"))
    for heading in (f"{made['measure']} [95%]", "gain [95%]", "p (Holm)"):
        table.add_column(heading, justify="right")
    for row in made["rows"]:
        gain = "" if row["gain"] is None else f"{row['gain']:+.3f} [{row['gain_low']:+.3f}, {row['gain_high']:+.3f}]"
        p = "" if row["p"] is None else f"{row['p']:.4f}"
        table.add_row(row["name"], f"{row['mean']:.3f} [{row['low']:.3f}, {row['high']:.3f}]", gain, p)
    console().print(table)


def _metrics(metrics: dict[str, Any]) -> None:
    fits = [f"{key.removeprefix('r2_')} {value:.3f}" for key, value in metrics.items() if key.startswith("r2_")]
    if fits:
        typer.echo(f"R² to α*: {', '.join(fits)}.")
    for key, label in (("shap", "Mean |SHAP|"), ("coefficients", "Coefficients")):
        shown = list(metrics.get(key, {}).items())[:_SHOWN]
        if shown:
            typer.echo(f"{label}: {', '.join(f'{name} {value:.4f}' for name, value in shown)}.")
