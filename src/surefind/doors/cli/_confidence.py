"""`surefind calibrate confidence`: fits how sure searches are on an exam, and shows how well it holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from surefind.doors.cli._common import console, print_json, progress, tell_problems
from surefind.doors.cli._money import agree

if TYPE_CHECKING:
    from surefind.kb import KnowledgeBase
    from surefind.lab.calibrate.report import ConfidenceReport
    from surefind.lab.exam.model import Exam

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
    from surefind.base.disk.records import to_json
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.llm_calls import llm_calls
    from surefind.lab.bench.plan import from_texts
    from surefind.lab.calibrate import confidence
    from surefind.lab.calibrate.page import render
    from surefind.lab.calibrate.run import success_of
    from surefind.lab.exam.formats.questions import read_questions
    from surefind.lab.measure.names import parse_measure

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
        _show(made, page)


def exam_of(base: KnowledgeBase, name: str) -> Exam:
    """The named exam; without a name, the standing one."""
    from surefind.doors.cli._train import load_exam
    from surefind.lab.bench.standing import standing_exam

    return load_exam(base.folder, name) if name else standing_exam(base, base.reader())


def _show(made: ConfidenceReport, page: Path) -> None:
    from rich.table import Table

    from surefind.lab.calibrate.page import sentence

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
