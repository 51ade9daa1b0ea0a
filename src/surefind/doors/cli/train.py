"""`surefind train`: learns fusion weights from one half of an exam and measures them on the other.

`surefind train prompt`: learns examples and a system prompt for a language model that reranks or weighs.

`surefind train encoder | reranker`: trains models for this knowledge base and keeps those that are better.

Code shared by the `surefind train` commands: options, the exam, the table of results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from surefind.base.errors import UsageError
from surefind.doors.cli import _complete
from surefind.doors.cli._common import (
    HERE,
    Budget,
    Folder,
    Json,
    Yes,
    agree,
    command_group,
    console,
    print_json,
    progress,
    tell_problems,
)
from surefind.doors.cli.search import Retrieve
from surefind.doors.cli.use import UNDO

if TYPE_CHECKING:
    from surefind.base.prompts.values import Calls
    from surefind.base.protocols import OnProgress
    from surefind.kb import KnowledgeBase
    from surefind.lab.exam.model import Exam
    from surefind.lab.train.job import TrainingJob
    from surefind.lab.train.material import Split
    from surefind.lab.train.report import ExamplesReport, Judged, ListwiseReport, ModelReport

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


def _add_prompt(app: typer.Typer) -> None:
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
    from surefind.lab.measure.ranks import parse_measure
    from surefind.lab.train.prompt import check_name, weigh_examples

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
        from surefind.base.disk.sealed import to_json

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


def _add_models(app: typer.Typer) -> None:
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
    from surefind.lab.measure.ranks import parse_measure
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
        from surefind.base.disk.sealed import to_json

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
    from surefind.lab.measure.ranks import parse_measure
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
        from surefind.base.disk.sealed import to_json

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
    from surefind.lab.measure.ranks import parse_measure
    from surefind.lab.train.fusion import train_weights

    with KnowledgeBase.open(kb) as base, progress(quiet=as_json) as report:
        tell_problems(base)
        questions = load_exam(kb, exam)
        made = train_weights(
            base, questions, retrieve or ("bm25", "dense"), parse_measure(measure), _missing(missing), report
        )
    if as_json:
        from surefind.base.disk.sealed import to_json

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
    from surefind.lab.train.kept import trained_things

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


_add_prompt(app)
_add_models(app)
