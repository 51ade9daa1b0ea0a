"""`surefind calibrate`: how sure searches are, or the confidence from which on questions need not be reranked.

`surefind calibrate confidence`: fits how sure searches are on an exam, and shows how well it holds.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

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
    console,
    print_json,
    progress,
    tell_problems,
)

if TYPE_CHECKING:
    from surefind.engine.confidence.signals import When
    from surefind.engine.search.pipeline import Pipeline
    from surefind.kb import KnowledgeBase
    from surefind.lab.calibrate.report import ConfidenceReport, SkipResult, ThresholdReport
    from surefind.lab.exam.model import Exam
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
    if stage == NAME:
        others = {"--confidence": confidence != 0.95, "--most-skipped": most != 1.0, "--rule": rule != "sequence"}
        others |= {"--when": when != "predicted", "--measure": measure != "nDCG@10", "--name": bool(name)}
        _refuse([option for option, given in others.items() if given], "is for rerankers, not for confidence")
        calibrate_confidence(kb, exam, pipeline, success, unanswerable, beta, (budget, yes), as_json)
        return
    _refuse(["--unanswerable"] if unanswerable else [], "is for confidence, not for rerankers")
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.cost import llm_calls
    from surefind.lab.calibrate.run import calibrate as run
    from surefind.lab.calibrate.run import check_options, plan_of, success_of
    from surefind.lab.measure.ranks import parse_measure

    with KnowledgeBase.open(kb) as base, progress(quiet=as_json) as report:
        tell_problems(base)
        questions = exam_of(base, exam)
        name = name or f"{stage.partition('(')[0]}-{questions.name}"
        check_options(name, when, beta, confidence, most, rule)
        wanted = parse_measure(success) if success else success_of(questions)
        plan = plan_of(_before(base, pipeline), stage, questions, wanted, parse_measure(measure))
        agree(base, llm_calls(base, plan), budget, yes, as_json)
        made = run(base, plan, name, cast("When", when), beta, confidence, most, report, cast("Rule", rule))
    if as_json:
        from surefind.base.disk.sealed import to_json

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


NAME = "confidence"
"""What `surefind calibrate` calibrates besides rerankers."""


def calibrate_confidence(
    kb: Path,
    exam: str,
    pipeline: str,
    success: str,
    unanswerable: Path | None,
    target: float,
    money: tuple[float | None, bool],
    as_json: bool,
) -> None:
    from surefind.base.disk.sealed import to_json
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.cost import llm_calls
    from surefind.lab.bench.plan import from_texts
    from surefind.lab.calibrate import confidence
    from surefind.lab.calibrate.report import render
    from surefind.lab.calibrate.run import success_of
    from surefind.lab.exam.formats.questions import read_questions
    from surefind.lab.measure.ranks import parse_measure

    without = list(dict.fromkeys(read_questions(unanswerable))) if unanswerable else []
    with KnowledgeBase.open(kb) as base, progress(quiet=as_json) as report:
        tell_problems(base)
        questions = exam_of(base, exam)
        chosen = from_texts([pipeline or base.settings.pipeline], base.settings.known)[0].pipeline
        wanted = parse_measure(success) if success else success_of(questions, 1)
        plan = confidence.plan_of(chosen, questions, wanted)
        agree(base, llm_calls(base, plan) * 2, *money, as_json)
        made, file = confidence.calibrate_confidence(base, plan, without, target, report)
    page = file.with_suffix(".html")
    page.write_text(render(made), encoding="utf-8")
    if as_json:
        print_json({**to_json(made), "file": str(file)})
    else:
        _show_confidence(made, page)


def exam_of(base: KnowledgeBase, name: str) -> Exam:
    """The named exam; without a name, the standing one."""
    from surefind.doors.cli.train import load_exam
    from surefind.lab.bench.drift import standing_exam

    return load_exam(base.folder, name) if name else standing_exam(base, base.reader())


def _show_confidence(made: ConfidenceReport, page: Path) -> None:
    from rich.table import Table

    from surefind.lab.calibrate.report import sentence

    counts = made.questions
    typer.echo(
        f"{made.exam.name}: {counts.exam} questions, and {counts.unanswerable} that no document answers. "
        f"The first hit is right for {made.right:.0%} of those with an answer ({made.success})."
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("held-out questions")
    for heading in ("calibration error", "of a perfect one", "Brier", "AUC"):
        table.add_column(heading, justify="right")
    for name, measured in (("calibrated", made.held_out), ("built-in", made.builtin)):
        auc = "–" if measured.auc is None else f"{measured.auc:.3f}"
        table.add_row(name, f"{measured.error:.3f}", f"{measured.error_by_chance:.3f}", f"{measured.brier:.3f}", auc)
    console().print(table)
    typer.echo(sentence(made))
    typer.echo(
        f"What changed: for the questions with an answer, searches were {made.mean.builtin:.2f} sure on average, "
        f"and are {made.mean.held_out:.2f} sure now; {made.right:.2f} of their first hits are right."
    )
    typer.echo(_proposal(made))
    typer.echo(f"Searches with this pipeline use it from now on. Reliability diagram: {page}")


def _proposal(made: ConfidenceReport) -> str:
    proposed = made.proposed
    if proposed is None:
        return "No min_confidence makes as many of the shown first hits right as --beta wants."
    return (
        f"With min_confidence = {proposed.min_confidence:g}, {proposed.target:.0%} of the shown first hits are right "
        f"on these questions: it hides {proposed.right_hidden:.0%} of the right ones and shows "
        f"{proposed.wrong_shown:.0%} of the wrong ones."
    )
