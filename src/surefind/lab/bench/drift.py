"""Drift: what a change of the documents did to the answers of an exam.

The default pipeline answers the same questions on two generations. All questions are asked on both sides: the weight of
a word in BM25 depends on all documents, so a change of any document can move any ranking, and no cheaper rule is safe.
Rankings, scores of rerankers and answers of language models are cached by their input, so that only what the change
touched costs time.

A question *could be affected* if its gold or one of its first ten documents changed, or their order did. The score of
every other question is the same on both sides, because nDCG@10 depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from surefind.base.access import Access
from surefind.base.errors import ExamError
from surefind.base.prompts.values import Calls
from surefind.base.protocols import OnProgress
from surefind.base.types import PAD, Floats, Rankings
from surefind.engine.search.reader import Searcher
from surefind.kb import KnowledgeBase
from surefind.kb.changes import Difference, difference
from surefind.lab.bench.comparison import RunDifference, compare_runs
from surefind.lab.bench.engine import Bench
from surefind.lab.bench.gold import Gold, locate_gold, rewritten
from surefind.lab.bench.llm_calls import llm_calls
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.bench.reranking import step_problems
from surefind.lab.bench.run import unseen
from surefind.lab.bench.scoring import places_of
from surefind.lab.bench.why import QuestionResult, why_better, why_worse
from surefind.lab.exam.clusters import clusters_of
from surefind.lab.exam.model import Exam, ExamQuery
from surefind.lab.measure.gains import Judge
from surefind.lab.measure.names import Measure
from surefind.lab.measure.ranks import MEASURES

MEASURE = Measure("nDCG", 10)
_OWNER = Access.owner()


@dataclass(frozen=True)
class ScoreChange:
    """A question whose score changed."""

    id: str
    query: str
    before: float
    after: float
    rank_before: int | None
    """The rank of the best gold document; None if it was not found."""
    rank_after: int | None
    why: str


@dataclass(frozen=True, kw_only=True)
class Drift(RunDifference):
    """The result of an exam on two generations. A question counts if one of them has its gold."""

    exam: str
    pipeline: str
    documents: Difference
    left_out: int
    """How many questions have no gold in both."""
    affected: int
    """How many questions could be affected by the change."""
    worse: tuple[ScoreChange, ...] = ()
    """The questions that got worse, the largest loss first."""
    better: tuple[ScoreChange, ...] = ()
    rewritten: tuple[str, ...] = ()
    """The questions whose gold says something else now, found or not: their answers may have changed."""
    problems: tuple[str, ...] = ()
    """Messages about stages whose model failed. The comparison is then not reliable."""
    measure: str = str(MEASURE)


def measure_drift(
    kb: KnowledgeBase,
    exam: Exam,
    before: Searcher,
    after: Searcher,
    report: OnProgress | None = None,
    fresh: bool = False,
    access: Access = _OWNER,
) -> Drift:
    """Asks an exam on two generations with the default pipeline, and compares the answers. Searches and gold are those
    of `access`: whoever sees the result learns nothing about other documents."""
    plan = _plan(kb, exam, access)
    texts = [{d.id: d.text for d in reader.documents(_OWNER)} for reader in (before, after)]
    old, new = (_admitted(documents, reader, access) for documents, reader in zip(texts, (before, after), strict=True))
    gold = locate_gold(plan.exam.queries, old, new)
    asked = [q for q, (first, second) in enumerate(gold) if first.documents or second.documents]
    if not asked:
        raise ExamError(
            f"No question of {exam.label} points at a document of either generation. Name another exam with --exam, or "
            "in surefind.toml: standing, below [exam]."
        )
    with kb.services.llm.replaying():
        was = _Side(Bench(kb, report, fresh, before), plan, texts[0], [first for first, _ in gold])
        now = _Side(Bench(kb, report, fresh, after), plan, texts[1], [second for _, second in gold])
    hashes = (_admitted(reader.hashes(), reader, access) for reader in (before, after))
    changed = difference(before.generation, after.generation, *hashes)
    gone = rewritten(plan.exam.queries, old, new)
    return replace(_compared(plan, asked, was, now, changed), rewritten=gone)


def _admitted(by_document: dict[str, str], reader: Searcher, access: Access) -> dict[str, str]:
    """Keeps what is about documents that the caller may read."""
    admitted = reader.view.admitted(access)
    return {document: value for document, value in by_document.items() if document in admitted}


def drift_calls(kb: KnowledgeBase, exam: Exam) -> list[Calls]:
    """Estimates the LLM calls of `measure_drift`, as an upper bound: each question is asked on both generations."""
    return llm_calls(kb, _plan(kb, exam)) * 2


def _plan(kb: KnowledgeBase, exam: Exam, access: Access = _OWNER) -> Plan:
    return unseen(Plan((Contender(kb.settings.pipeline, kb.pipeline()),), exam, (MEASURE,), access), kb.services)


class _Side:
    """The answers on one generation."""

    def __init__(self, bench: Bench, plan: Plan, texts: dict[str, str], gold: Sequence[Gold]) -> None:
        self.gold = gold
        self.problems: tuple[str, ...] = ()
        self._spans = bench.view(plan.contenders[0]).spans()
        if not texts:  # nothing is found in an empty knowledge base
            self.scores: Floats = np.zeros(len(gold))
            self._rankings = Rankings(np.full((len(gold), 1), PAD), np.zeros((len(gold), 1)))
            return
        ranked = bench.rank(plan)
        names = [contender.name for contender in plan.contenders]
        self.problems = (*ranked.problems, *step_problems(names, ranked.steps))
        self._rankings = ranked.rankings[0]
        judge = Judge([gold_query.query for gold_query in gold], places_of(self._spans, texts))
        self.scores = MEASURES[MEASURE.name](judge.gains(self._rankings, MEASURE.level), MEASURE.k)

    @cached_property
    def documents(self) -> list[tuple[str, ...]]:
        """The ranked documents of each question, each at the rank of its first passage."""
        at = self._spans.at(self._rankings.ids)
        return [
            tuple(dict.fromkeys(self._spans.names[self._spans.documents[place]] for place in row if place != PAD))
            for row in at.tolist()
        ]

    def place(self, q: int) -> QuestionResult:
        """The ranking of a question, and where its gold is in it."""
        ranks = [rank for rank, document in enumerate(self.documents[q], 1) if document in self.gold[q].documents]
        return QuestionResult(self.documents[q], self.gold[q], float(self.scores[q]), min(ranks, default=None))


def _compared(plan: Plan, asked: Sequence[int], old: _Side, new: _Side, changed: Difference) -> Drift:
    queries = plan.exam.queries
    gain = new.scores - old.scores
    clusters = clusters_of([queries[q] for q in asked])
    touched = {*changed.added, *changed.removed, *changed.changed}
    affected = [q for q in asked if _could_matter(q, old, new, touched)]
    moved = sorted((q for q in affected if gain[q]), key=lambda q: (-abs(gain[q]), q))
    changes = {q: _change(queries[q], old.place(q), new.place(q), changed) for q in moved}
    scores = compare_runs(old.scores[asked][:, None], new.scores[asked][:, None], clusters)[0]
    return Drift(
        exam=plan.exam.label,
        pipeline=str(plan.contenders[0].pipeline),
        documents=changed,
        left_out=len(queries) - len(asked),
        affected=len(affected),
        worse=tuple(changes[q] for q in moved if gain[q] < 0),
        better=tuple(changes[q] for q in moved if gain[q] > 0),
        problems=tuple(dict.fromkeys((*old.problems, *new.problems))),
        **scores.figures,
    )


def _could_matter(q: int, old: _Side, new: _Side, touched: set[str]) -> bool:
    first, second = old.documents[q][: MEASURE.k], new.documents[q][: MEASURE.k]
    gold = {*old.gold[q].documents, *new.gold[q].documents}
    return first != second or not touched.isdisjoint({*first, *second, *gold})


def _change(query: ExamQuery, was: QuestionResult, now: QuestionResult, changed: Difference) -> ScoreChange:
    explain = why_worse if now.score < was.score else why_better
    return ScoreChange(query.id, query.text, was.score, now.score, was.rank, now.rank, explain(was, now, changed))
