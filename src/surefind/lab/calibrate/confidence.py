"""`surefind calibrate confidence`: moves the built-in confidence towards the questions of an exam, and saves it.

The fit starts from the built-in predictor, so that twenty questions are enough to begin with; each further question
counts as much (`confidence.predictor`). It is checked by predictions for questions that it was fitted without, ten
parts in turn. Questions of a kind that the exam does not have (nonsense, another subject) are judged nearly as the
built-in predictor judges them.

Asks every question of an exam, and keeps what its search shows and whether its first hit is right.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surefind import __version__
from surefind.base.errors import ExamError
from surefind.base.protocols import OnProgress
from surefind.base.types import BoolArray, Effort, ExamName, Floats, Query
from surefind.engine.confidence.answering import builtin, write_answering
from surefind.engine.confidence.predictor import SavedModel, cross_fitted, fit
from surefind.engine.confidence.signals import Kind
from surefind.engine.search.confidence import signals_of
from surefind.engine.search.pipeline import Pipeline, Reading
from surefind.engine.store.backend import View
from surefind.kb import KnowledgeBase
from surefind.lab.bench.engine import OWNER, Bench
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.calibrate.report import ConfidenceQuestions, ConfidenceReport, MeanConfidence, Proposal, Reliability
from surefind.lab.exam.model import Exam, ExamQuery, clusters_of
from surefind.lab.measure.ranks import Measure
from surefind.lab.measure.thresholds import auc, brier, calibration_error, error_by_chance, reliability

_BATCH = 16
"""Questions that are searched at a time."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What the searches for the questions of an exam showed."""

    queries: tuple[ExamQuery, ...]
    kind: Kind
    signals: Floats
    """(questions, signals)."""
    success: BoolArray
    """Whether the first hit answers the question."""
    groups: NDArray[np.int64]
    """Equal for questions about the same document."""
    view: View
    dropped: int


def ask_exam(kb: KnowledgeBase, plan: Plan, effort: Effort = "quick", report: OnProgress | None = None) -> Answers:
    """`plan` has one contender and one measure, which says whether the first hit answers a question."""
    scored = Bench(kb, report).score(plan)
    queries, view = scored.plan.exam.queries, scored.view
    asked = [Query(query.text, query.id) for query in queries]
    kind, signals = ask(kb, plan.contenders[0].pipeline, asked, view, effort, report)
    success = scored.scores[str(plan.measures[0])][:, 0] > 0
    return Answers(queries, kind, signals, success, clusters_of(queries), view, scored.left_out.total)


def ask(
    kb: KnowledgeBase,
    pipeline: Pipeline,
    queries: Sequence[Query],
    view: View,
    effort: Effort = "quick",
    report: OnProgress | None = None,
) -> tuple[Kind, Floats]:
    """Returns the signals of searches for these queries."""
    measured = []
    for at in range(0, len(queries), _BATCH):
        if report:
            report("Searching", at, len(queries))
        some = queries[at : at + _BATCH]
        reading = Reading(view, kb.services, OWNER)
        measured.append(signals_of(pipeline.run(some, 1, reading), some, pipeline, reading, effort))
    return measured[0][0], np.concatenate([values for _, values in measured])


MIN_QUESTIONS = 20
"""Questions of an exam that can calibrate."""


def plan_of(pipeline: Pipeline, exam: Exam, success: Measure) -> Plan:
    if exam.generator:
        raise ExamError(
            f"The questions of {exam.label} were written from the documents and repeat their words, so real questions "
            "are harder: a confidence that was calibrated on them would be too high. Label real questions "
            "on the page Label of surefind serve."
        )
    return Plan((Contender(str(pipeline), pipeline),), exam, (success,))


def calibrate_confidence(
    kb: KnowledgeBase,
    plan: Plan,
    unanswerable: Sequence[str] = (),
    target: float = 0.9,
    report: OnProgress | None = None,
) -> tuple[ConfidenceReport, Path]:
    """Saves the calibration, and returns it with its report and its file. `unanswerable` are questions that no document
    answers; `target` is the share of shown first hits that should be right with the proposed `min_confidence`."""
    folder = kb.services.models_folder
    assert folder is not None  # a knowledge base has one
    pipeline = plan.contenders[0].pipeline
    efforts: tuple[Effort, ...] = ("quick", "read") if kb.settings.effort(person=True) == "read" else ("quick",)
    predictors: dict[Kind, SavedModel] = {}
    checks: dict[str, Floats] = {}
    for effort in efforts:
        answers = ask_exam(kb, plan, effort, report)
        questions = len(answers.queries)
        if questions < MIN_QUESTIONS:
            raise ExamError(
                f"The exam {plan.exam.label} has {questions} questions about the current documents; calibrating needs "
                f"at least {MIN_QUESTIONS}. Label more on the page Label of surefind serve."
            )
        signals, success, groups = answers.signals, answers.success, answers.groups
        if unanswerable:
            queries = [Query(text, str(number)) for number, text in enumerate(unanswerable)]
            signals = np.concatenate([signals, ask(kb, pipeline, queries, answers.view, effort, report)[1]])
            success = np.concatenate([success, np.zeros(len(queries), np.bool_)])
            groups = np.concatenate([groups, groups.max() + 1 + np.arange(len(queries))])
        indexes = [retriever.index_spec(kb.services) for retriever in pipeline.retrieve]
        encoder = next((index for r, index in zip(pipeline.retrieve, indexes, strict=True) if r.signal == "dense"), "")
        earlier = builtin().predictors[answers.kind]
        predictors[answers.kind] = fit(signals, success, earlier=earlier).saved
        checks = {
            "held_out": cross_fitted(signals, success, groups, earlier=earlier),
            "builtin": builtin()(answers.kind, signals, encoder),
        }
    saved = ConfidenceReport(
        pipeline=str(pipeline),
        layout=answers.view.layout,
        indexes=tuple(indexes),
        corpus=answers.view.fingerprint,
        documents=tuple(answers.view.sketch),
        predictors=predictors,
        words=f"the exam {plan.exam.label}, {questions} questions",
        surefind=__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        exam=ExamName(plan.exam.label, plan.exam.fingerprint),
        success=str(plan.measures[0]),
        confidence=efforts[-1],
        questions=ConfidenceQuestions(questions, len(unanswerable), answers.dropped),
        right=float(success[:questions].mean()),
        mean=MeanConfidence(*(float(checks[name][:questions].mean()) for name in ("held_out", "builtin"))),
        held_out=_checked(checks["held_out"], success),
        builtin=_checked(checks["builtin"], success),
        proposed=proposed(checks["held_out"], success, target),
    )
    return saved, write_answering(folder, saved)


def proposed(p: Floats, success: BoolArray, target: float) -> Proposal | None:
    """The lowest `min_confidence` with which the share `target` of the shown first hits is right, and what it hides and
    shows; None if there is none."""
    for least in np.round(np.arange(0.0, 1.0, 0.05), 2):
        shown = p >= least
        if shown.any() and success[shown].mean() >= target:
            hidden = float((success & ~shown).sum() / max(1, success.sum()))
            wrong = float((~success & shown).sum() / max(1, (~success).sum()))
            return Proposal(target=target, min_confidence=float(least), right_hidden=hidden, wrong_shown=wrong)
    return None


def _checked(p: Floats, success: BoolArray) -> Reliability:
    """How well probabilities hold on questions."""
    return Reliability(
        searches=len(p),
        error=calibration_error(p, success),
        error_by_chance=error_by_chance(p),
        brier=brier(p, success),
        auc=auc(p, success),
        mean=float(p.mean()),
        observed=float(success.mean()),
        bins=tuple(reliability(p, success)),
    )
