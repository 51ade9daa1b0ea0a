"""`surefind calibrate`: how sure searches are, or the confidence from which on questions need not be reranked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from surefind.base.errors import UsageError
from surefind.doors.cli import _complete
from surefind.doors.cli._common import HERE, Folder, Json, console, print_json, progress, tell_problems
from surefind.doors.cli._money import Budget, Yes, agree

if TYPE_CHECKING:
    from surefind.engine.confidence.measures import When
    from surefind.engine.search.pipeline import Pipeline
    from surefind.kb import KnowledgeBase
    from surefind.lab.calibrate.report import SkipResult, ThresholdReport
    from surefind.lab.measure.thresholds import Rule


def register(app: typer.Typer) -> None:
    app.command("calibrate")(calibrate)


def calibrate(
    stage: Annotated[
        str,
        typer.Argument(
            help="'confidence': how sure searches are of their first hit. Or the reranker to skip, such as "
            "cross_encoder or 'llm_listwise(top=20)'.",
            autocompletion=_complete.stages("rerank"),
        ),
    ],
    exam: Annotated[
        str,
        typer.Option(
            "--exam",
            help="An exam from `surefind exam list`: NAME or NAME@VERSION.",
            show_default="the standing exam",
            autocompletion=_complete.exams,
        ),
    ] = "",
    unanswerable: Annotated[
        Path | None,
        typer.Option(
            "--unanswerable",
            help="For confidence: a file of questions that the documents do not answer, one a line, or CSV or JSONL.",
        ),
    ] = None,
    beta: Annotated[
        float,
        typer.Option(
            "--beta",
            help="The share of skipped questions that must succeed. For confidence: the share of shown first hits that "
            "should be right, for which a min_confidence is proposed.",
        ),
    ] = 0.9,
    confidence: Annotated[float, typer.Option("--confidence", help="How sure the promise is.")] = 0.95,
    most: Annotated[
        float, typer.Option("--most-skipped", help="The largest share of questions to skip, to keep more of the gain.")
    ] = 1.0,
    rule: Annotated[
        str,
        typer.Option(
            "--rule",
            help="How the threshold is chosen: 'sequence' tests from the largest down and allows for looking at many; "
            "'eq32' takes the smallest that passes, as the agentic-knowledge-base study does.",
        ),
    ] = "sequence",
    when: Annotated[
        str,
        typer.Option("--when", help="The measure of confidence: max, margin, agreement, raw or predicted."),
    ] = "predicted",
    pipeline: Annotated[
        str,
        typer.Option(
            "--pipeline",
            "-p",
            help="The pipeline to calibrate, or the stages before the reranker, by name or spec.",
            show_default="the default pipeline; before a reranker, without its rerankers",
            autocompletion=_complete.pipelines,
        ),
    ] = "",
    success: Annotated[
        str,
        typer.Option(
            "--success",
            help="When a ranking succeeds.",
            show_default="T5EM, for confidence T1EM; Success@5 or @1 if gold is whole documents",
        ),
    ] = "",
    measure: Annotated[str, typer.Option("--measure", "-m", help="The quality that is reported.")] = "nDCG@10",
    name: Annotated[str, typer.Option("--name", help="The name of the calibration.", show_default="STAGE-EXAM")] = "",
    budget: Budget = None,
    yes: Yes = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Calibrate how sure searches are of their first hit, or find out which questions need not be reranked.

    With `confidence`, every question of the exam is searched for. The built-in confidence is moved towards what that
    shows, more so the more questions there are, and saved with the knowledge base. Each question is judged by a fit
    without it, so that the figures hold for new questions.

    With a reranker, the result is a threshold with a promise: of the questions that are not reranked, a share of at
    least BETA succeeds, at this confidence level. The threshold is chosen on one half of the exam and checked on the
    other, and saved with the knowledge base: use it as `conditional(stage=STAGE, calibrated=NAME)`. It is refused once
    the documents change.
    """
    from surefind.doors.cli import _confidence

    if stage == _confidence.NAME:
        others = {"--confidence": confidence != 0.95, "--most-skipped": most != 1.0, "--rule": rule != "sequence"}
        others |= {"--when": when != "predicted", "--measure": measure != "nDCG@10", "--name": bool(name)}
        _refuse([option for option, given in others.items() if given], "is for rerankers, not for confidence")
        _confidence.calibrate_confidence(kb, exam, pipeline, success, unanswerable, beta, (budget, yes), as_json)
        return
    _refuse(["--unanswerable"] if unanswerable else [], "is for confidence, not for rerankers")
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.llm_calls import llm_calls
    from surefind.lab.calibrate.evidence import plan_of
    from surefind.lab.calibrate.run import calibrate as run
    from surefind.lab.calibrate.run import check_options, success_of
    from surefind.lab.measure.names import parse_measure

    with KnowledgeBase.open(kb) as base, progress(quiet=as_json) as report:
        tell_problems(base)
        questions = _confidence.exam_of(base, exam)
        name = name or f"{stage.partition('(')[0]}-{questions.name}"
        check_options(name, when, beta, confidence, most, rule)
        wanted = parse_measure(success) if success else success_of(questions)
        plan = plan_of(_before(base, pipeline), stage, questions, wanted, parse_measure(measure))
        agree(base, llm_calls(base, plan), budget, yes, as_json)
        made = run(base, plan, name, cast("When", when), beta, confidence, most, report, cast("Rule", rule))
    if as_json:
        from surefind.base.disk.records import to_json

        print_json(to_json(made))
    else:
        _show(made)


def _refuse(options: list[str], why: str) -> None:
    if options:
        raise UsageError(f"{options[0]} {why}. Leave it out.")


def _before(base: KnowledgeBase, text: str) -> Pipeline:
    """The named pipeline; without a name, the default one without its rerankers."""
    from surefind.lab.bench.plan import from_texts

    if text:
        return from_texts([text], base.settings.known)[0].pipeline
    (current,) = from_texts([base.settings.pipeline], base.settings.known)
    return replace(current.pipeline, rerank=(), name="")


def _show(made: ThresholdReport) -> None:
    from surefind.lab.calibrate.run import sentence

    counts = made.questions
    typer.echo(f"{made.exam.name}: the threshold is chosen on {counts.tuning} questions and checked on "
               f"{counts.held_out} others. Success: {made.success}.")  # fmt: skip
    _table(made)
    order = "the smallest that passes is taken (eq. 32)" if made.rule == "eq32" else "the first that fails ends it"
    typer.echo(f"\nThresholds of {made.when}, tested from the largest down; {order}:")
    _curve(made)
    typer.echo(sentence(made))
    typer.echo(f"Pipeline: {made.path} >> conditional(stage={made.stage}, calibrated={made.name})")


def _table(made: ThresholdReport) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("held-out half")
    headings = ("τ", "skipped", f"{made.success} of skipped", made.quality, "gain kept", "s saved", "$/1k saved")
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in made.rows:
        held_out, rate = row.held_out, row.held_out.skip_rate
        table.add_row(
            row.when + (" *" if row.when == made.when else ""),
            "none" if row.below is None else f"{row.below:.3f}",
            f"{rate:.0%}",
            _success(held_out),
            f"{held_out.quality.conditional:.3f}",
            _kept(held_out),
            f"{rate * made.seconds:.3f} of {made.seconds:.3f}",
            f"{1000 * rate * made.dollars:.2f}",
        )
    console().print(table)
    quality = made.rows[0].held_out.quality
    typer.echo(f"{made.quality} without reranking {quality.never:.3f}, always reranking {quality.always:.3f}. "
               "* is saved.")  # fmt: skip


def _curve(made: ThresholdReport) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("τ", "skipped", "success", "at least", "held out: skipped", "success", made.quality):
        table.add_column(heading, justify="right")
    for point in made.curve:
        held_out = point.held_out
        passed = "✓" if point.low >= made.beta else " "
        table.add_row(
            f"{point.below:.3f}", str(point.skipped), f"{point.success:.3f}", f"{point.low:.3f} {passed}",
            f"{held_out.skip_rate:.0%}", _success(held_out), f"{held_out.quality.conditional:.3f}",
        )  # fmt: skip
    console().print(table)


def _success(held_out: SkipResult) -> str:
    if held_out.success is None:
        return "–"
    return f"{held_out.success:.3f} [{held_out.low:.3f}, {held_out.high:.3f}]"


def _kept(held_out: SkipResult) -> str:
    return "–" if held_out.gain_kept is None else f"{held_out.gain_kept:.0%}"
