"""`surefind calibrate`: chooses a threshold for `conditional`, checks it on held-out questions and saves it.

Asks every question of an exam with and without the reranker, and keeps what a threshold is chosen by.

Chooses a threshold on one part of the questions and checks it on the other.

The predictor is fitted on the tuning part alone. Its threshold is chosen by predictions for questions that were not in
the fit (`cross_fitted`), because predictions for the questions of the fit are too sure.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from surefind import __version__
from surefind.base import spec
from surefind.base.errors import ExamError, SpecError, choices
from surefind.base.protocols import OnProgress, Reranker
from surefind.base.types import BoolArray, ExamName, Floats, Query, Rankings
from surefind.engine.confidence.predictor import LogisticModel, cross_fitted, fit, write_calibration
from surefind.engine.confidence.signals import MEASURED, When, confidence, features
from surefind.engine.fuse.learned import question_key
from surefind.engine.search.pipeline import Pipeline, PipelinePassages
from surefind.kb import KnowledgeBase
from surefind.lab.bench.cost import llm_calls
from surefind.lab.bench.engine import OWNER, Bench
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.calibrate.report import (
    CurvePoint,
    RerankQuality,
    SkipResult,
    ThresholdQuestions,
    ThresholdReport,
    ThresholdRow,
    TriedThreshold,
)
from surefind.lab.exam.model import Exam, ExamQuery, clusters_of, held_out
from surefind.lab.measure.ranks import Measure
from surefind.lab.measure.statistics import wilson
from surefind.lab.measure.thresholds import (
    MIN_QUESTIONS,
    RULES,
    Rule,
    Threshold,
    chosen,
    first_failure,
    smallest,
    thresholds,
    z_of,
)
from surefind.lab.train.fusion import check_name

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known about each question of an exam."""

    confidences: Mapping[When, Floats]
    """By every measure but `predicted`."""
    features: Floats
    success: BoolArray
    """Whether the ranking before the reranker succeeds."""
    before: Floats
    """The quality of the ranking before the reranker."""
    after: Floats
    """The quality of the reranked ranking."""
    groups: NDArray[np.int64]
    """Questions about the same document have the same number."""


@dataclass(frozen=True, eq=False)
class Cutoff:
    """A threshold, the measure that it is for, and how it was chosen."""

    when: When
    threshold: Threshold | None
    tested: tuple[Threshold, ...]
    predictor: LogisticModel | None = None
    smallest: Threshold | None = None
    """The threshold of eq. 32."""
    failed: Threshold | None = None
    """The threshold that ended the sequence."""

    @property
    def below(self) -> float:
        """τ; infinite if every question is to be reranked."""
        return np.inf if self.threshold is None else self.threshold.below

    def confidences(self, evidence: Evidence) -> Floats:
        if self.predictor is None:
            return evidence.confidences[self.when]
        return _where_sure(evidence, self.predictor(evidence.features))


def choose(
    evidence: Evidence,
    tuning: Rows,
    when: When,
    beta: float,
    level: float,
    most: float = 1.0,
    rule: Rule = "sequence",
) -> Cutoff:
    """The choice by the tuning questions; at most the share `most` of them is skipped."""
    success = evidence.success[tuning]
    predictor = None
    if when == "predicted":
        features = evidence.features[tuning]
        predictor = fit(features, success)
        sure = _where_sure(evidence, np.zeros(len(evidence.success)))[tuning]
        confidences = np.where(np.isinf(sure), sure, cross_fitted(features, success, evidence.groups[tuning]))
    else:
        confidences = evidence.confidences[when][tuning]
    tested = thresholds(confidences, success, level)
    by_sequence, by_size = chosen(tested, beta, level, most), smallest(confidences, success, beta, level, most)
    taken = by_size if rule == "eq32" else by_sequence
    return Cutoff(when, taken, tuple(tested), predictor, by_size, first_failure(tested, beta, level, most))


def _where_sure(evidence: Evidence, predicted: Floats) -> Floats:
    """The predictions; infinite where there is nothing to reorder."""
    return np.where(np.isinf(evidence.confidences["max"]), np.inf, predicted)


def checked(evidence: Evidence, rows: Rows, choice: Cutoff, level: float) -> SkipResult:
    """What the choice does on other questions: how many are skipped, how many of these succeed, and the quality."""
    skipped = choice.confidences(evidence)[rows] >= choice.below
    before, after, success = evidence.before[rows], evidence.after[rows], evidence.success[rows]
    n, k = int(skipped.sum()), int(success[skipped].sum())
    interval = wilson(k, n, z_of(level))
    never, always = float(before.mean()), float(after.mean())
    made = float(np.where(skipped, before, after).mean())
    return SkipResult(
        questions=len(rows),
        skipped=n,
        skip_rate=n / max(1, len(rows)),
        successes=k,
        success=k / n if n else None,
        low=interval.low,
        high=interval.high,
        quality=RerankQuality(never, always, made),
        gain_kept=(made - never) / (always - never) if always > never else None,
    )


_TIMED = 12
"""Questions on which the reranker is timed; the first is not counted, because it loads the model."""


@dataclass(frozen=True, eq=False)
class AskedExam:
    """The questions that still have their documents, and what was found out about them."""

    queries: tuple[ExamQuery, ...]
    evidence: Evidence
    seconds: float
    """Median seconds of the reranker for a question."""
    corpus: str
    dropped: int


def plan_of(pipeline: Pipeline, stage: str, exam: Exam, success: Measure, quality: Measure) -> Plan:
    """The plan with two rows: without the reranker, and with it for every question."""
    if pipeline.rerank:
        names = ", ".join(str(reranker) for reranker in pipeline.rerank)
        raise ExamError(f"The pipeline already reranks ({names}). Name the part before it: --pipeline 'bm25 + dense'.")
    reranker = cast(Reranker, spec.make("rerank", stage))
    always = replace(pipeline, rerank=(reranker,), name="")
    return Plan((Contender("never", pipeline), Contender("always", always)), exam, (success, quality))


def ask(kb: KnowledgeBase, plan: Plan, report: OnProgress | None = None) -> AskedExam:
    never, always = plan.contenders
    scored = Bench(kb, report).score(plan)
    success, quality = (scored.scores[str(measure)] for measure in plan.measures)
    fused = scored.steps[1][0].before
    lists = [scored.retrieved["", str(r), never.pipeline.depth] for r in never.pipeline.retrieve]
    evidence = Evidence(
        {when: confidence(fused, lists, when) for when in MEASURED},
        features(fused, lists),
        success[:, 0] > 0,
        quality[:, 0],
        quality[:, 1],
        clusters_of(scored.plan.exam.queries),
    )
    queries = scored.plan.exam.queries
    seconds = _seconds(kb, always.pipeline, queries, fused)
    return AskedExam(queries, evidence, seconds, scored.view.fingerprint, scored.left_out.total)


def _seconds(kb: KnowledgeBase, pipeline: Pipeline, queries: tuple[ExamQuery, ...], fused: Rankings) -> float:
    """Times a reranker that runs here, one question at a time, as in a search. One that asks a service is timed by its
    own calls (`dollars` has the price)."""
    source = PipelinePassages(pipeline, kb.reader().reading(OWNER))
    taken = []
    for i in np.unique(np.linspace(0, len(queries) - 1, _TIMED).astype(int)).tolist():
        row = replace(fused, ids=fused.ids[i : i + 1], scores=fused.scores[i : i + 1])
        started = time.perf_counter()
        pipeline.rerank[0].rerank([Query(queries[i].text)], row, source, max(1, row.ids.shape[1]), kb.services)
        taken.append(time.perf_counter() - started)
    return float(np.median(taken[1:] or taken))


def dollars(kb: KnowledgeBase, plan: Plan) -> float:
    """The estimated price of reranking one question; 0 if it asks no language model, or one without a known price."""
    from surefind.engine.llm.models import quote

    priced = quote(kb.services.llm, llm_calls(kb, plan))
    return priced.dollars / max(1, len(plan.exam.queries))


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
