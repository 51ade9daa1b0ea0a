"""Measures what `surefind ask` answers to the questions of an exam: its quotes or, with `model`, what a language model
writes.

Every question of the exam whose gold is a span is asked once of every pipeline. It is *right* if a gold passage stands
in what is quoted: in an answer, or in one of the closest passages if ask is not sure (`measure.spans` has the rules).
A question that gets no answer counts as wrong and as the least sure. Questions without an answer in the documents are
counted apart, so that the other figures do not depend on how many of them there are.

The report of `surefind bench --answers`: values, written as JSON and read again; the cells of a table, and a page with
the curve of risks.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
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
from surefind.base.types import BoolArray, Floats, Hit
from surefind.engine.search.quoting import answering
from surefind.kb import KnowledgeBase
from surefind.kb.answer.answering import answer
from surefind.kb.answer.values import Answer, Cited, State
from surefind.kb.answer.written import PASSAGES, reads
from surefind.lab.bench.engine import Bench
from surefind.lab.bench.html import page, square, table, x, y
from surefind.lab.bench.plan import Contender, Plan, label, left_out_text
from surefind.lab.bench.report import Environment, environment
from surefind.lab.bench.terminal import interval_text
from surefind.lab.exam.model import ExamQuery, Judgment, clusters_of
from surefind.lab.measure.spans import aurc, by_confidence, holds, is_right, precision_at_half, risks
from surefind.lab.measure.statistics import Clusters, Interval, bootstrap, bootstrap_of, compare_all, letters, wilson

FORMAT = 3
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
class Refusals:
    """What happened to questions that no document answers."""

    name: str
    """The file that they are from."""
    questions: int
    refused: Interval
    """The share of which ask said that nothing here answers it."""
    unanswered: Interval
    """The same, with those of which it was not sure."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """What is known of answers that a language model wrote."""

    model: str
    written: int
    """How many answers it wrote."""
    supported: Interval | None
    """The share of its sentences of which the reader says that a cited passage says them."""
    dropped: float
    """Sentences an answer that were left out, because their passages do not say them."""
    invented: int
    """Citations of passages that it was not shown; none of them is shown to anyone."""
    dollars: float


@dataclass(frozen=True, kw_only=True)
class AnswersRow:
    """A pipeline, and how good its answers are."""

    name: str
    aliases: tuple[str, ...]
    spec: str
    letters: str
    right: Interval
    """An answer string stands in what is quoted."""
    first: Interval
    """It stands in the first quote."""
    reached: Interval | None
    """`right` among the questions whose passage is in the first five hits."""
    answered: Interval
    unsure: Interval
    """How many got the closest passages instead of an answer."""
    precision: Interval | None
    """`right` among the answered ones."""
    lost: Interval | None
    """Of the questions whose quote would be right, how many were refused."""
    facts: Interval | None
    """The share of the facts of the questions (`answer_facts`) that the answers have: what a model wrote, else what is
    quoted."""
    precision_at_half: Interval
    aurc: Interval
    characters: float
    """The median length of what is quoted, of the first quote."""
    unanswerable: tuple[Refusals, ...]
    seconds: float
    """The median time of a question."""
    curve: tuple[tuple[float, float], ...]
    """Points of the risk–coverage curve: (coverage, risk)."""
    written: Written | None = None


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
class Grades:
    """What one pipeline answered to each question of the exam."""

    right: BoolArray
    first: BoolArray
    reached: BoolArray
    """Whether a gold passage was in the hits."""
    would: BoolArray
    """Whether the quote is right, or would have been if it had not been refused."""
    confidence: Floats
    """`_REFUSED` where there was no answer."""
    states: tuple[State, ...]
    characters: float
    unanswerable: tuple[Refusals, ...]
    seconds: float
    """The median time of a question."""
    written: Written | None
    facts: Interval | None

    def are(self, state: State) -> BoolArray:
        return np.array([own == state for own in self.states])


Unanswerable = Mapping[str, Sequence[str]]
"""Questions that no document answers, by the name of their file."""


def measure_answers(
    kb: KnowledgeBase,
    plan: Plan,
    unanswerable: Unanswerable,
    command: str,
    report: OnProgress | None = None,
    model: str | None = None,
) -> AnswersReport:
    """Asks every question of every pipeline of the plan, and returns the figures. With `model`, a language model
    writes the answers."""
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
        _grade(kb, contender, queries, texts, unanswerable, plan.access, bench.report, model)
        for contender in plan.contenders
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
        confidence=0.95,
        rows=tuple(
            _row(contender, mark, grades, clusters)
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
    unanswerable: Unanswerable,
    access: Access,
    report: OnProgress,
    model: str | None,
) -> Grades:
    """Asks all questions of one pipeline and compares its answers with the gold."""
    questions = [*(query.text for query in queries), *(text for own in unanswerable.values() for text in own)]
    seconds: list[float] = []

    def ask(question: str) -> Answer:
        report(f"Asking {contender.name}", len(seconds), len(questions))
        started = time.perf_counter()
        made = answer(kb, question, access, pipeline=contender.pipeline, quote=model is None, model=model)
        seconds.append(time.perf_counter() - started)
        return made

    answers = [ask(query.text) for query in queries]
    refusals = tuple(
        _refusals(name, [ask(question).state for question in own]) for name, own in unanswerable.items() if own
    )
    report(f"Asking {contender.name}", len(questions), len(questions))
    golds = [[(gold, texts[gold.document][gold.start : gold.end]) for gold in spans_of(query)] for query in queries]
    graded = [_graded(made, gold) for made, gold in zip(answers, golds, strict=True)]
    sure = [made.confidence or 0.0 if made.sentences else _REFUSED for made in answers]
    right, first, reached, would = np.array(graded).T
    return Grades(
        right,
        first,
        reached,
        would,
        np.array(sure),
        tuple(made.state for made in answers),
        float(np.median([len(made.sentences[0].text) for made in answers if made.sentences] or [0])),
        refusals,
        float(np.median(seconds)),
        _written(answers) if model is not None else None,
        _facts(answers, queries),
    )


Gold = Sequence[tuple[Judgment, str]]


def _graded(made: Answer, gold: Gold) -> tuple[bool, bool, bool, bool]:
    """Whether what is quoted, or written if a model wrote, is right, the first quote is, the passage was found, and the
    quote is or would be right if it was not refused."""
    said = [
        any(_is_right(sentence, made.cited[number - 1], gold) for number in sentence.citations)
        for sentence in made.sentences
    ]
    reached = any(holds(hit.text, hit.document, one, text) for hit in made.result.hits[:PASSAGES] for one, text in gold)
    if made.model:  # its sentences stand together
        whole = " ".join(sentence.text for sentence in made.written)
        documents = {hit.document for hit in made.cited}
        said = [any(holds(whole, one.document, one, text) for one, text in gold if one.document in documents)]
    refused = [] if said else answering(made.result.quotes)
    places = {hit.rank: hit.document for hit in made.result.hits}
    would = any(said) or any(
        is_right(quote.text, quote.span, places.get(quote.rank, ""), one, text)
        for quote in refused
        for one, text in gold
    )
    return any(said), bool(said and said[0]), reached, would


def _is_right(sentence: Cited, hit: Hit, gold: Gold) -> bool:
    return any(is_right(sentence.text, sentence.span, hit.document, one, text) for one, text in gold)


def _refusals(name: str, states: Sequence[State]) -> Refusals:
    n = len(states)
    refused, answered = states.count("not_here"), states.count("answered")
    return Refusals(name=name, questions=n, refused=wilson(refused, n), unanswered=wilson(n - answered, n))


def _written(answers: Sequence[Answer]) -> Written:
    """What is known of what a model wrote."""
    written = [made for made in answers if made.model]
    supported = [
        reads(sentence.text, [made.cited[number - 1] for number in sentence.citations])
        for made in written
        for sentence in made.written
    ]
    return Written(
        model=written[0].model if written else "",
        written=len(written),
        supported=wilson(sum(supported), len(supported)) if supported else None,
        dropped=sum(len(made.dropped) for made in written) / max(1, len(written)),
        invented=sum(made.invented for made in written),
        dollars=sum(made.dollars for made in answers),
    )


def _facts(answers: Sequence[Answer], queries: Sequence[ExamQuery]) -> Interval | None:
    """The share of the facts of these questions that their answers have; None if no question lists any."""
    said = [" ".join(sentence.text for sentence in made.written or made.sentences) for made in answers]
    there = [holds(text, "", None, fact) for text, query in zip(said, queries, strict=True) for fact in facts_of(query)]
    return wilson(sum(there), len(there)) if there else None


def facts_of(query: ExamQuery) -> list[str]:
    """The facts that an answer to a question should have: `answer_facts` in its metadata, a list or lines of text."""
    given = query.metadata.get("answer_facts", ())
    facts = given.split("\n") if isinstance(given, str) else given if isinstance(given, list | tuple) else ()
    return [fact.strip() for fact in facts if isinstance(fact, str) and fact.strip()]


def _row(contender: Contender, mark: str, graded: Grades, clusters: Clusters) -> AnswersRow:
    """All figures of a pipeline with their intervals. Questions about one document are resampled together."""
    answered, refused = graded.are("answered"), graded.are("not_here")
    columns = np.stack([graded.right, graded.first, answered, graded.are("not_sure"), refused], axis=1).astype(float)
    right, first, share, unsure, _ = bootstrap(columns, clusters=clusters)

    def among(column: int, chosen: BoolArray) -> Interval | None:
        return bootstrap(columns[chosen, column : column + 1], clusters=clusters[chosen])[0] if chosen.any() else None

    order, wrong = by_confidence(graded.confidence, graded.right)
    return AnswersRow(
        name=contender.name,
        aliases=tuple(contender.aliases),
        spec=str(contender.pipeline),
        letters=mark,
        right=right,
        first=first,
        reached=among(0, graded.reached),
        answered=share,
        unsure=unsure,
        precision=among(0, answered),
        lost=among(4, graded.would),
        facts=graded.facts,
        precision_at_half=bootstrap_of(precision_at_half, wrong, clusters=clusters[order]),
        aurc=bootstrap_of(aurc, wrong, clusters=clusters[order]),
        characters=graded.characters,
        unanswerable=graded.unanswerable,
        seconds=graded.seconds,
        curve=_curve(wrong),
        written=graded.written,
    )


def _curve(wrong: Floats) -> tuple[tuple[float, float], ...]:
    """Points of the risk–coverage curve: (coverage, risk)."""
    n = len(wrong)
    at = np.unique(np.linspace(1, n, min(n, _POINTS)).round().astype(int))
    return tuple(
        (round(i / n, 4), round(risk, 4)) for i, risk in zip(at.tolist(), risks(wrong)[at - 1].tolist(), strict=True)
    )


_COLOURS = 8
LEGEND = (
    "right: a gold passage stands in what is quoted: in the answer, or in one of the closest passages if ask is not "
    "sure. right, but refused: of the questions whose quote would be right. AURC: area under the curve of risks, 0 is "
    "best. Brackets: 95% intervals. Pipelines that share a letter are statistically tied (p >= 0.05 after Holm)."
)


def figures(report: AnswersReport, row: AnswersRow) -> dict[str, str]:
    """The figures of a row, by their names."""
    shown: dict[str, Interval | str | None] = {
        "right": row.right,
        "in the first quote": row.first,
        "right if its passage is in five hits": row.reached,
        "answered": row.answered,
        "not sure": row.unsure,
        "right if answered": row.precision,
        "right, but refused": row.lost,
        **({"facts": row.facts} if row.facts else {}),
        "right in the surer half": row.precision_at_half,
        "AURC": row.aurc,
    }
    for refusals in row.unanswerable:
        shown[f"{refusals.name}: refused"] = refusals.refused
        shown[f"{refusals.name}: not answered"] = refusals.unanswered
    if (written := row.written) is not None:
        shown |= {
            "sentences that their passages say": written.supported,
            "sentences left out, an answer": f"{written.dropped:.2f}",
            "invented citations, not shown": f"{written.invented:,}",
            "dollars": f"{written.dollars:.4f}",
        }
    shown |= {"characters": f"{row.characters:.0f}", "tied": row.letters, "s/question": f"{row.seconds:.2f}"}
    return {
        name: "–" if value is None else value if isinstance(value, str) else interval_text(value)
        for name, value in shown.items()
    }


def row_name(row: AnswersRow) -> str:
    return label(row.name, row.aliases)


def about(report: AnswersReport) -> str:
    """What was asked, and what was left out."""
    exam = report.exam
    none = sum(refusals.questions for refusals in report.rows[0].unanswerable)
    text = f"{exam.label}: {exam.queries} questions"
    text += f", and {none} that no document answers." if none else "."
    if written := report.rows[0].written:
        text += f" {written.model or 'No language model'} wrote {written.written} answers."
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
    columns = {row_name(row): figures(report, row) for row in rows}
    cells = {name: [cell.replace(", ", ",\u00a0") for cell in column.values()] for name, column in columns.items()}
    return page(
        "Answers",
        [
            f'<header><p class="kicker">Surefind {escape(report.surefind)}, {escape(report.created[:10])}</p>'
            f"<h1>How good are the answers?</h1><p class='rest'>{escape(about(report))}</p>"
            f'<p class="spec">{escape(report.command)}</p></header>',
            "<section>",
            table("How good the answers are", list(figures(report, rows[0])), cells),
            f'<p class="small soft">{escape(LEGEND)}</p></section>',
            f"<section><h2>Risk and coverage</h2>{curves(rows)}",
            '<p class="small soft">To the right: the share of questions that are answered, the surest first. Upwards: '
            "the share of these that are wrong. A question that ask refuses counts as wrong, and comes last."
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
