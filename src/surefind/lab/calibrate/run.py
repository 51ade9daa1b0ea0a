"""`surefind calibrate`: chooses a threshold for `conditional`, checks it on held-out questions and saves it."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np

from surefind import __version__
from surefind.base.errors import ExamError, SpecError, choices
from surefind.base.protocols import OnProgress
from surefind.base.types import ExamName
from surefind.engine.confidence.measures import MEASURED, When
from surefind.engine.confidence.saved import write_calibration
from surefind.engine.fuse.learned import question_key
from surefind.kb import KnowledgeBase
from surefind.lab.bench.plan import Plan
from surefind.lab.calibrate.choice import Cutoff, Evidence, Rows, checked, choose
from surefind.lab.calibrate.evidence import AskedExam, ask, dollars
from surefind.lab.calibrate.report import (
    CurvePoint,
    ThresholdQuestions,
    ThresholdReport,
    ThresholdRow,
    TriedThreshold,
)
from surefind.lab.exam.model import Exam
from surefind.lab.exam.split import held_out
from surefind.lab.measure.names import Measure
from surefind.lab.measure.thresholds import MIN_QUESTIONS, RULES, Rule, Threshold
from surefind.lab.train.fusion import check_name

WHENS: tuple[When, ...] = (*MEASURED, "predicted")
EVERY_QUESTION = "every question is reranked"


def success_of(exam: Exam, k: int = 5) -> Measure:
    """Whether a ranking succeeds: its first k passages, 5 or 1, contain the answer (T5EM, T1EM), or, if gold is not
    given as passages, its first k documents contain a relevant one."""
    spans = all(any(j.is_answer and j.is_span for j in query.judgments) for query in exam.queries)
    return Measure(f"T{k}EM", 5) if spans else Measure("Success", k)


def check_options(name: str, when: str, beta: float, level: float, most: float = 1.0, rule: str = "sequence") -> None:
    check_name(name)
    if rule not in RULES:
        raise SpecError(f"There is no rule {rule!r} to choose a threshold. {choices(rule, RULES)}")
    if when not in WHENS:
        raise SpecError(f"There is no measure of confidence {when!r}. {choices(when, WHENS)}")
    for option, value in (("--beta", beta), ("--confidence", level)):
        if not 0 < value < 1:
            raise SpecError(f"{option} must be between 0 and 1, not {value:g}.")
    if not 0 < most <= 1:
        raise SpecError(f"--most-skipped must be above 0 and at most 1, not {most:g}.")


def calibrate(
    kb: KnowledgeBase,
    plan: Plan,
    name: str,
    when: When = "predicted",
    beta: float = 0.9,
    level: float = 0.95,
    most: float = 1.0,
    report: OnProgress | None = None,
    rule: Rule = "sequence",
) -> ThresholdReport:
    """Saves the calibration and returns it with its report. The plan comes from `evidence.plan_of`."""
    check_options(name, when, beta, level, most, rule)
    folder = kb.services.models_folder
    assert folder is not None  # a knowledge base has one
    asked = ask(kb, plan, report)
    out = np.array(held_out(asked.queries))
    tuning, held = np.flatnonzero(~out), np.flatnonzero(out)
    if len(tuning) < MIN_QUESTIONS or len(held) < MIN_QUESTIONS:
        raise ExamError(
            f"The exam {plan.exam.label} has {len(asked.queries)} questions about the current documents; calibrating "
            f"needs at least {MIN_QUESTIONS} in each half. Add questions, or write some: surefind exam write."
        )
    made = {each: choose(asked.evidence, tuning, each, beta, level, most, rule) for each in WHENS}
    pipeline = plan.contenders[1].pipeline
    success, quality = plan.measures
    predictor = made[when].predictor
    saved = ThresholdReport(
        name=name,
        stage=str(pipeline.rerank[0]),
        path=pipeline.path,
        corpus=asked.corpus,
        when=when,
        below=None if made[when].threshold is None else made[when].below,
        predictor=None if predictor is None else predictor.saved,
        learnt=tuple(sorted(question_key(asked.queries[i].text) for i in tuning)),
        surefind=__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        exam=ExamName(plan.exam.label, plan.exam.fingerprint),
        success=str(success),
        quality=str(quality),
        beta=beta,
        confidence=level,
        seconds=asked.seconds,
        dollars=dollars(kb, plan),
        rule=rule,
        eq32=_tested(made[when].smallest),
        failed=_tested(made[when].failed),
        most_skipped=most,
        questions=ThresholdQuestions(len(tuning), len(held), asked.dropped),
        rows=tuple(_row(asked, made[each], tuning, held, level, beta) for each in WHENS),
        curve=_curve(asked.evidence, made[when], held, level),
    )
    write_calibration(folder, saved)
    return saved


def _row(asked: AskedExam, choice: Cutoff, tuning: Rows, held: Rows, level: float, beta: float) -> ThresholdRow:
    """One measure of confidence: its threshold, and what it does on both parts."""
    measured = checked(asked.evidence, held, choice, level)
    return ThresholdRow(
        when=choice.when,
        below=None if choice.threshold is None else choice.below,
        tuning=checked(asked.evidence, tuning, choice, level),
        held_out=measured,
        kept=measured.success is None or measured.success >= beta,
    )


def _curve(evidence: Evidence, choice: Cutoff, held: Rows, level: float) -> tuple[CurvePoint, ...]:
    """Each threshold that was tested, with its effect on the held-out questions."""
    return tuple(
        CurvePoint(
            below=tested.below,
            skipped=tested.skipped,
            success=tested.successes / tested.skipped,
            low=tested.low,
            held_out=checked(evidence, held, replace(choice, threshold=tested), level),
        )
        for tested in choice.tested
    )


def _tested(threshold: Threshold | None) -> TriedThreshold | None:
    if threshold is None:
        return None
    success = threshold.successes / threshold.skipped
    return TriedThreshold(below=threshold.below, skipped=threshold.skipped, success=success, low=threshold.low)


def sentence(made: ThresholdReport) -> str:
    """What the calibration promises, and whether the held-out questions kept it."""
    beta, level, found = made.beta, made.confidence, made.chosen.held_out
    if made.below is None:
        return (
            f"No threshold promises with {level:.0%} confidence that {beta:.0%} of the skipped questions succeed, so "
            f"{EVERY_QUESTION}. {_why_refused(made)}Try a lower --beta, another --when, or an exam with more questions."
        )
    if not found.skipped:
        return f"Questions with a confidence of {made.below:.3g} or more are not reranked; no held-out question is."
    told = (
        f"Questions with a confidence of {made.below:.3g} or more are not reranked: {found.skip_rate:.0%} of the "
        f"held-out questions. Of these, {found.success:.1%} succeed without it [{found.low:.3f}, {found.high:.3f}]"
    )
    return f"{told}, so the promise of {beta:.0%} was {'kept' if made.chosen.kept else 'not kept'} on them."


def _why_refused(made: ThresholdReport) -> str:
    """Why the fixed sequence has no threshold where eq. 32 has one; "" if neither has."""
    lucky, failed = made.eq32, made.failed
    if lucky is None:
        return ""
    ended = (
        f"the first that is tested, {failed.below:.3g}, fails (at least {failed.low:.3f})"
        if failed
        else "too few questions have as high a confidence for a test"
    )
    return (
        f"Equation 32 of the study would take {lucky.below:.3g} ({lucky.skipped} questions, "
        f"{lucky.success:.1%} succeed, at least {lucky.low:.3f}), the luckiest of all thresholds; tested in "
        f"order, {ended}. --rule eq32 takes it. "
    )
