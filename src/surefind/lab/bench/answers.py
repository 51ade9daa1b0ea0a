"""Measures what `surefind ask` quotes for the questions of an exam. It asks no language model.

Every question of the exam whose gold is a span is asked once of every pipeline, and its first quote is compared with
the gold (`measure.quotes` has the formulas). A question that gets no answer counts as wrong and as the least sure: its
quote is not known. Questions without an answer in the documents are counted apart, so that the other figures do not
depend on how many of them there are.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from surefind import __version__
from surefind.base.access import Access
from surefind.base.errors import ExamError, UsageError
from surefind.base.protocols import OnProgress
from surefind.base.types import BoolArray, Floats
from surefind.kb import KnowledgeBase
from surefind.kb.answer.answering import answer
from surefind.kb.answer.values import Answer
from surefind.lab.bench.answers_report import AnswersExam, AnswersReport, AnswersRow
from surefind.lab.bench.engine import Bench
from surefind.lab.bench.environment import environment
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.exam.clusters import clusters_of
from surefind.lab.exam.model import ExamQuery, Judgment
from surefind.lab.measure.clusters import Clusters
from surefind.lab.measure.quotes import aurc, by_confidence, is_right, precision_at_half, risks, token_f1
from surefind.lab.measure.statistics import bootstrap, bootstrap_of, compare_all, letters, wilson

_POINTS = 100
"""Points of a curve that are kept, at most."""
_REFUSED = -1.0
"""The confidence of a question that got no answer: below all others."""


@dataclass(frozen=True, eq=False)
class GradedQuotes:
    """What one pipeline quoted for each question of the exam."""

    right: BoolArray
    f1: Floats
    confidence: Floats
    """`_REFUSED` where there was no answer."""
    refused: int
    """How many questions without an answer got none."""
    seconds: float
    """The median time of a question."""

    @property
    def answered(self) -> BoolArray:
        return self.confidence > _REFUSED


def measure_answers(
    kb: KnowledgeBase, plan: Plan, unanswerable: Sequence[str], command: str, report: OnProgress | None = None
) -> AnswersReport:
    """Asks every question of every pipeline of the plan, and returns the figures."""
    _check(plan)
    bench = Bench(kb, report)
    bench.build(plan)
    plan, texts, left_out = bench.relocated(plan)
    queries = [query for query in plan.exam.queries if spans_of(query)]
    if not queries:
        raise ExamError(
            f"No question of {plan.exam.label} marks the passage that answers it: its gold is whole documents. Choose "
            "an exam with passages (--exam), or write one: surefind exam write."
        )
    clusters = clusters_of(queries)
    graded = [
        _grade(kb, contender, queries, texts, unanswerable, plan.access, bench.report) for contender in plan.contenders
    ]
    right = np.stack([grades.right for grades in graded], axis=1).astype(np.float64)
    marks = letters(right.mean(axis=0).tolist(), compare_all(right, clusters=clusters))
    exam = plan.exam
    return AnswersReport(
        surefind=__version__,
        created=datetime.now().astimezone().isoformat(timespec="seconds"),
        command=command,
        audience=str(plan.access),
        groups=tuple(sorted(plan.access.groups)),
        environment=environment(),
        exam=AnswersExam(
            name=exam.name,
            version=exam.version,
            fingerprint=exam.fingerprint,
            queries=len(queries),
            without_span=len(exam.queries) - len(queries),
            dropped=left_out.total,
            restricted=left_out.restricted,
        ),
        unanswerable=len(unanswerable),
        confidence=0.95,
        rows=tuple(
            _row(contender, mark, grades, clusters, len(unanswerable))
            for contender, grades, mark in zip(plan.contenders, graded, marks, strict=True)
        ),
    )


def spans_of(query: ExamQuery) -> list[Judgment]:
    """The passages that answer a question; none if its gold is a whole document."""
    return [judgment for judgment in query.judgments if judgment.is_answer and judgment.is_span]


def _check(plan: Plan) -> None:
    for contender in plan.contenders:
        if contender.layout is not None:
            raise UsageError(
                "--answers measures `surefind ask`, which uses the layout of the settings. Leave out --layout and "
                "presets that compare layouts."
            )
        if contender.pipeline.asks_llm:
            raise UsageError(f"{contender.name} asks a language model, and --answers asks none. Leave it out.")


def _grade(
    kb: KnowledgeBase,
    contender: Contender,
    queries: Sequence[ExamQuery],
    texts: dict[str, str],
    unanswerable: Sequence[str],
    access: Access,
    report: OnProgress,
) -> GradedQuotes:
    """Asks all questions of one pipeline and compares its quotes with the gold."""
    questions = [*(query.text for query in queries), *unanswerable]
    answers, seconds = [], []
    for number, question in enumerate(questions):
        report(f"Asking {contender.name}", number, len(questions))
        started = time.perf_counter()
        answers.append(answer(kb, question, access, pipeline=contender.pipeline, quote=True))
        seconds.append(time.perf_counter() - started)
    report(f"Asking {contender.name}", len(questions), len(questions))
    known, others = answers[: len(queries)], answers[len(queries) :]
    graded = [_graded(quoted, spans_of(query), texts) for quoted, query in zip(known, queries, strict=True)]
    return GradedQuotes(
        np.array([right for right, _ in graded]),
        np.array([f1 for _, f1 in graded]),
        np.array([quoted.confidence or 0.0 if quoted.answered else _REFUSED for quoted in known]),
        sum(not quoted.answered for quoted in others),
        float(np.median(seconds)),
    )


def _graded(quoted: Answer, golds: Sequence[Judgment], texts: dict[str, str]) -> tuple[bool, float]:
    """Whether the first quote has the answer, and its F1."""
    if not quoted.answered:
        return False, 0.0
    first = quoted.sentences[0]
    hit = next(hit for hit in quoted.result.hits if hit.rank == first.citations[0])
    pairs = [(gold, texts[gold.document][gold.start : gold.end]) for gold in golds]
    right = any(is_right(first.text, hit, gold, text) for gold, text in pairs)
    return right, token_f1(first.text, [text for _, text in pairs])


def _row(contender: Contender, mark: str, graded: GradedQuotes, clusters: Clusters, unanswerable: int) -> AnswersRow:
    """All figures of a pipeline with their intervals. Questions about one document are resampled together."""
    answered = graded.answered
    columns = np.stack([graded.right, graded.f1, answered], axis=1).astype(np.float64)
    right, f1, share = bootstrap(columns, clusters=clusters)
    order, wrong = by_confidence(graded.confidence, graded.right)
    return AnswersRow(
        name=contender.name,
        aliases=tuple(contender.aliases),
        spec=str(contender.pipeline),
        letters=mark,
        right=right,
        f1=f1,
        answered=share,
        precision=bootstrap(columns[answered, :1], clusters=clusters[answered])[0] if answered.any() else None,
        precision_at_half=bootstrap_of(precision_at_half, wrong, clusters=clusters[order]),
        aurc=bootstrap_of(aurc, wrong, clusters=clusters[order]),
        unanswerable=wilson(graded.refused, unanswerable) if unanswerable else None,
        seconds=graded.seconds,
        curve=_curve(wrong),
    )


def _curve(wrong: Floats) -> tuple[tuple[float, float], ...]:
    """Points of the risk–coverage curve: (coverage, risk)."""
    n = len(wrong)
    at = np.unique(np.linspace(1, n, min(n, _POINTS)).round().astype(int))
    return tuple(
        (round(i / n, 4), round(risk, 4)) for i, risk in zip(at.tolist(), risks(wrong)[at - 1].tolist(), strict=True)
    )
