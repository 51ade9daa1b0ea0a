"""Measures what `surefind ask` quotes for the questions of an exam. It asks no language model.

Every question of the exam whose gold is a span is asked once of every pipeline, and its first quote is compared with
the gold (`measure.quotes` has the formulas). A question that gets no answer counts as wrong and as the least sure: its
quote is not known. Questions without an answer in the documents are counted apart, so that the other figures do not
depend on how many of them there are.

The report of `surefind bench --answers`: values, written as JSON and read again.

Shows how good the quotes of `surefind ask` are: the cells of a table, and a page with the curve of risks.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path

import numpy as np

from surefind import __version__
from surefind.base.access import Access
from surefind.base.disk.sealed import from_json, private_folder, read_sealed, to_json, write_sealed
from surefind.base.errors import ExamError, UsageError
from surefind.base.protocols import OnProgress
from surefind.base.types import BoolArray, Floats
from surefind.kb import KnowledgeBase
from surefind.kb.answer.answering import answer
from surefind.kb.answer.values import Answer
from surefind.lab.bench.engine import Bench
from surefind.lab.bench.html import page, square, table, x, y
from surefind.lab.bench.plan import Contender, Plan, label, left_out_text
from surefind.lab.bench.report import Environment, environment
from surefind.lab.bench.terminal import interval_text
from surefind.lab.exam.model import ExamQuery, Judgment, clusters_of
from surefind.lab.measure.spans import aurc, by_confidence, is_right, precision_at_half, risks, token_f1
from surefind.lab.measure.statistics import Clusters, Interval, bootstrap, bootstrap_of, compare_all, letters, wilson

FORMAT = 1
"""Increase it when a field is added, removed or changed. Reports of other formats are not read."""
ANSWERS_FILE = "answers.json"


@dataclass(frozen=True, kw_only=True)
class AnswersExam:
    """The questions that were asked."""

    name: str
    version: int
    fingerprint: str | None = None
    queries: int
    without_span: int
    """Questions that were left out, because their gold is a whole document."""
    dropped: int | None = None
    restricted: int | None = None

    @property
    def label(self) -> str:
        return f"{self.name} v{self.version}" if self.version else self.name


@dataclass(frozen=True, kw_only=True)
class AnswersRow:
    """A pipeline, and how good its quotes are."""

    name: str
    aliases: tuple[str, ...]
    spec: str
    letters: str
    right: Interval
    f1: Interval
    answered: Interval
    precision: Interval | None
    precision_at_half: Interval
    aurc: Interval
    unanswerable: Interval | None
    seconds: float
    """The median time of a question."""
    curve: tuple[tuple[float, float], ...]
    """Points of the risk–coverage curve: (coverage, risk)."""


@dataclass(frozen=True, kw_only=True)
class AnswersReport:
    format: int = FORMAT
    surefind: str
    created: str
    command: str
    audience: str
    groups: tuple[str, ...]
    environment: Environment
    exam: AnswersExam
    unanswerable: int
    confidence: float
    rows: tuple[AnswersRow, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("it has no rows")

    @property
    def ordered(self) -> list[AnswersRow]:
        """The rows, best first."""
        return sorted(self.rows, key=lambda row: -row.right.mean)


def save_answers(report: AnswersReport, file: Path) -> None:
    write_sealed(file, to_json(report))


def read_answers(file: Path) -> AnswersReport:
    """Reads a report. Raises `UsageError` if it is damaged, or another version of Surefind wrote it."""
    try:
        return from_json(AnswersReport, read_sealed(file, FORMAT))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{file} is damaged, or another version of Surefind wrote it ({error}). Remove it, and measure again: "
            "surefind bench --answers."
        ) from None


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


_COLOURS = 8
_HEADINGS = ("right", "F1", "answered", "right if answered", "right in the surer half", "AURC")
LEGEND = (
    "right: the first quote has the gold answer. F1: words shared with it. AURC: area under the curve of risks, 0 is "
    "best. Brackets: 95% intervals. Pipelines that share a letter are statistically tied (p >= 0.05 after Holm)."
)


def heads(report: AnswersReport) -> list[str]:
    unanswerable = ["refused if unanswerable"] if report.unanswerable else []
    return [*_HEADINGS, *unanswerable, "tied", "s/question"]


def cells(report: AnswersReport, row: AnswersRow) -> list[str]:
    figures = [row.right, row.f1, row.answered, row.precision, row.precision_at_half, row.aurc]
    figures += [row.unanswerable] if report.unanswerable else []
    return [
        *("–" if figure is None else interval_text(figure) for figure in figures),
        row.letters,
        f"{row.seconds:.2f}",
    ]


def row_name(row: AnswersRow) -> str:
    return label(row.name, row.aliases)


def about(report: AnswersReport) -> str:
    """What was asked, and what was left out."""
    exam = report.exam
    text = f"{exam.label}: {exam.queries} questions"
    text += f", and {report.unanswerable} that no document answers." if report.unanswerable else "."
    if exam.without_span:
        text += f" {exam.without_span} questions were left out: their gold is a whole document, not a passage."
    return f"{text} {left_out_text(exam.dropped, exam.restricted)}".rstrip()


def write_answers(report: AnswersReport, folder: Path) -> Path:
    """Writes the figures as JSON and as a page. Returns the path of the page."""
    private_folder(folder)
    save_answers(report, folder / ANSWERS_FILE)
    (folder / "answers.html").write_text(render(report), encoding="utf-8")
    return folder / "answers.html"


def render(report: AnswersReport) -> str:
    """The whole page of what `measure_answers` returns."""
    rows = report.ordered
    figures = {row_name(row): [cell.replace(", ", ",\u00a0") for cell in cells(report, row)] for row in rows}
    return page(
        "Answers",
        [
            f'<header><p class="kicker">Surefind {escape(report.surefind)}, {escape(report.created[:10])}</p>'
            f"<h1>How good are the answers?</h1><p class='rest'>{escape(about(report))}</p>"
            f'<p class="spec">{escape(report.command)}</p></header>',
            "<section>",
            table("How good the answers are", heads(report), figures),
            f'<p class="small soft">{escape(LEGEND)}</p></section>',
            f"<section><h2>Risk and coverage</h2>{curves(rows)}",
            '<p class="small soft">To the right: the share of questions that are answered, the surest first. Upwards: '
            "the share of these whose quote is wrong. A question that ask refuses counts as wrong, and comes last."
            "</p></section>",
        ],
    )


def curves(rows: Sequence[AnswersRow]) -> str:
    """The risk–coverage curves as SVG, with a key."""
    marks = []
    for number, row in enumerate(rows):
        points = " ".join(f"{x(coverage)},{y(risk)}" for coverage, risk in row.curve)
        name = escape(row_name(row))
        marks.append(
            f'<polyline class="curve" {_colour("stroke", number)} points="{points}"><title>{name}</title></polyline>'
        )
    key = "".join(
        f"<li><span {_colour('color', n)}>■</span> {escape(row_name(row))}</li>" for n, row in enumerate(rows)
    )
    return square(marks, "coverage; upwards: risk", "Risk and coverage") + f'<ul class="small">{key}</ul>'


def _colour(what: str, number: int) -> str:
    return f'style="{what}:var(--c{number % _COLOURS})"'
