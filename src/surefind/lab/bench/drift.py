"""Drift: what a change of the documents did to the answers of an exam.

The default pipeline answers the same questions on two generations. All questions are asked on both sides: the weight of
a word in BM25 depends on all documents, so a change of any document can move any ranking, and no cheaper rule is safe.
Rankings, scores of rerankers and answers of language models are cached by their input, so that only what the change
touched costs time.

A question *could be affected* if its gold or one of its first ten documents changed, or their order did. The score of
every other question is the same on both sides, because nDCG@10 depends on nothing else.

Drift in words: the summary, and the questions that changed.

Where the gold of an exam is in two generations, and which of it was lost from one to the other.

`relocate` leaves out a judgment whose passage it does not find, which is right for comparing configurations on the same
documents. Here the loss is the finding. So a lost judgment stays in the exam, under the name of a document that does
not exist: it counts as an answer that was not found.

An edited passage is not a lost one. If its beginning is no longer in the document word for word, but half of its words
still stand together, the document counts as the gold.

Says why a question got worse or better when the documents changed: in one line, the most direct cause first.

Chooses the standing exam: the one that is asked again whenever the documents change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from surefind.lab.bench.cost import llm_calls
from surefind.lab.bench.engine import Bench, places_of
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.bench.report import RunDifference, compare_runs
from surefind.lab.bench.reranking import step_problems
from surefind.lab.bench.run import unseen
from surefind.lab.exam.known_item import generate
from surefind.lab.exam.model import Exam, ExamQuery, Judgment, clusters_of, locate
from surefind.lab.exam.overlap import WINDOW, overlap
from surefind.lab.exam.store import ExamStore
from surefind.lab.measure.ranks import MEASURES, Judge, Measure

_LOST = "\0"
"""Begins the names of lost documents; no document has it in its name."""
_SAME = 0.5
"""The share of a passage's words that an edited passage still has."""


@dataclass(frozen=True)
class Gold:
    """The judgments of one question in one generation."""

    query: ExamQuery
    """The question, with judgments that point into the documents of the generation or at lost documents."""
    documents: tuple[str, ...]
    """The gold documents that the generation has, with their passages."""
    lost: tuple[str, ...]
    """The gold documents that the generation lacks, or that lack their passages."""


def locate_gold(
    queries: Sequence[ExamQuery], old: Mapping[str, str], new: Mapping[str, str]
) -> list[tuple[Gold, Gold]]:
    """Returns the gold of each question in the old texts and in the new ones."""
    return [(_gold(query, old, new), _gold(query, new, old)) for query in queries]


def rewritten(queries: Sequence[ExamQuery], old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the questions whose gold is in both texts and says something else in the new ones."""
    return tuple(
        query.text for query in queries if any(_rewritten(j, old, new) for j in query.judgments if j.grade > 0)
    )


def _rewritten(j: Judgment, old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    if j.document not in old or j.document not in new or old[j.document] == new[j.document]:
        return False
    was = locate(j, old)
    if was is None:
        return False
    passage = " ".join(old[j.document][was.start : was.end].split())
    return passage not in " ".join(new[j.document].split())


def _gold(query: ExamQuery, here: Mapping[str, str], there: Mapping[str, str]) -> Gold:
    judgments = [moved for j in query.judgments if (moved := locate(j, here) or _edited(j, here, there))]
    present = dict.fromkeys(j.document for j in judgments if j.grade > 0)
    lost: dict[str, Judgment] = {}
    for j in sorted(query.judgments, key=lambda j: (j.is_answer, j.grade)):  # the best of a document comes last
        if j.grade > 0 and j.document not in present:
            lost[j.document] = j
    missing = [Judgment(f"{_LOST}{document}", grade=j.grade, role=j.role) for document, j in lost.items()]
    return Gold(replace(query, judgments=(*judgments, *missing)), tuple(present), tuple(lost))


def _edited(j: Judgment, here: Mapping[str, str], there: Mapping[str, str]) -> Judgment | None:
    """Returns a judgment of the whole document if an edited form of the passage, as the other generation has it, is
    still in the document."""
    other, text = locate(j, there), here.get(j.document)
    if other is None or text is None or j.grade < 1:
        return None
    passage = " ".join(there[j.document][other.start : other.end].split()[:WINDOW])
    return Judgment(j.document, grade=j.grade, role=j.role) if overlap(passage, text) >= _SAME else None


_GENERATED = "known-item"


def has_standing_exam(kb: KnowledgeBase) -> bool:
    """Returns whether `standing_exam` finds a saved exam, so that it need not write one."""
    names = ExamStore(kb.data / "exams").names()
    return bool(kb.settings.standing) or _GENERATED in names or len(names) == 1


def standing_exam(kb: KnowledgeBase, before: Searcher) -> Exam:
    """Returns the exam that `standing` names; else the only exam besides known-item; else known-item.

    The newest saved version is taken as it is, even if the documents have changed since: an exam that is written anew
    after each change would not ask about what the change removed. If there is no exam at all, known-item questions are
    written from the documents of `before`, the generation to compare with, and saved."""
    store = ExamStore(kb.data / "exams")
    names = store.names()
    own = [name for name in names if name != _GENERATED]
    if kb.settings.standing:
        return store.load(kb.settings.standing)
    if len(own) == 1:
        return store.load(own[0])
    if _GENERATED in names:
        return store.load(_GENERATED)
    exam = generate(before.documents(Access.owner()))
    return store.save(replace(exam, corpus=before.fingerprint))


_NAMED = 2
"""The most documents that are named for one cause."""
_MAX_ABOVE = 10
"""If the gold was not found, this many documents are above it."""


@dataclass(frozen=True)
class QuestionResult:
    """The answer to one question on one generation."""

    documents: tuple[str, ...]
    """The documents that were found, best first."""
    gold: Gold
    score: float
    rank: int | None
    """The rank of the best gold document; None if none was found."""

    @property
    def above(self) -> tuple[str, ...]:
        """The documents above the best gold document."""
        return self.documents[: _MAX_ABOVE if self.rank is None else self.rank - 1]


def why_worse(was: QuestionResult, now: QuestionResult, changed: Difference) -> str:
    gone = [document for document in was.gold.documents if document in now.gold.lost]
    causes = [
        _says([d for d in gone if d in changed.removed], "was removed", "were removed"),
        _says(
            [d for d in gone if d not in changed.removed],
            "changed and no longer has the passage",
            "changed and no longer have the passages",
        ),
        _says([d for d in now.gold.documents if d in changed.changed], "changed", "changed"),
    ]
    if now.gold.documents:  # a lost document cannot be outranked
        causes += [
            _says([d for d in now.above if d in changed.added], "is new and ranked above it", "are new and above it"),
            _says(
                [d for d in now.above if d in changed.changed], "changed and is ranked above it", "changed, above it"
            ),
        ]
    return _joined(causes, [d for d in now.above if d not in was.above])


def why_better(was: QuestionResult, now: QuestionResult, changed: Difference) -> str:
    back = [document for document in now.gold.documents if document in was.gold.lost]
    causes = [
        _says([d for d in back if d in changed.added], "is new", "are new"),
        _says(
            [d for d in back if d not in changed.added],
            "changed and has the passage now",
            "changed and have the passages now",
        ),
        _says([d for d in now.gold.documents if d in changed.changed and d not in back], "changed", "changed"),
        _says(
            [d for d in was.above if d in changed.removed], "was ranked above it and is gone", "were above it, now gone"
        ),
        _says(
            [d for d in was.above if d in changed.changed], "was ranked above it and changed", "were above it, changed"
        ),
    ]
    return _joined(causes, [d for d in was.above if d not in now.above])


def _joined(causes: Iterable[str], moved: list[str]) -> str:
    reasons = "; ".join(filter(None, causes))
    if reasons:
        return reasons
    passed = f"; {_listed(moved)} changed places with it" if moved else ""
    return f"no gold document and none above it changed, but word weights depend on all documents{passed}"


def _says(documents: list[str], one: str, several: str) -> str:
    return f"{_listed(documents)} {one if len(documents) == 1 else several}" if documents else ""


def _listed(documents: list[str]) -> str:
    more = f" and {len(documents) - _NAMED} more" if len(documents) > _NAMED else ""
    return (" and " if len(documents) == _NAMED else ", ").join(documents[:_NAMED]) + more


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


_MAX_LISTED_QUESTIONS = 10
"""The most questions that are listed of those that got worse, and of those that got better."""
_ALL = ": add --json to list them all"
_QUESTION = 70
"""Characters of a question that are shown."""


def drift_text(drift: Drift) -> str:
    """Returns everything that `surefind drift` prints about one exam."""
    changed = drift.documents
    lines = [
        f"Generation {changed.before} to {changed.after}: {len(changed.added)} documents added, {len(changed.changed)} "
        f"changed, {len(changed.removed)} removed.",
        f"Exam: {drift.exam}, {drift.questions} questions. {drift.affected} could be affected.",
    ]
    if drift.left_out:
        lines.append(f"{drift.left_out} questions were left out: neither generation has their passages.")
    if drift.rewritten:
        ask = "1 question asks" if len(drift.rewritten) == 1 else f"{len(drift.rewritten)} questions ask"
        lines.append(f"{ask} for a text that changed. Check that the new text is the right answer:")
        lines += [f"  {_short(text)}" for text in drift.rewritten[:_MAX_LISTED_QUESTIONS]]
    lines += [summary(drift), verdict(drift)]
    lines += [f"Problem: {problem}" for problem in drift.problems]
    lines += listed("got worse", drift.worse, _ALL) + listed("got better", drift.better, _ALL)
    return "\n".join(lines)


def summary(drift: Drift) -> str:
    return f"{drift.measure} {drift.summary}"


def verdict(drift: Drift) -> str:
    if drift.failed:
        return "WORSE: the loss is significant."
    if not drift.worse and not drift.better:
        return "ok: no question has another score."
    return "ok: no significant loss."


def listed(what: str, changes: Sequence[ScoreChange], total: str = "") -> list[str]:
    """Returns the first questions that changed, two lines each. `total` says how to see all of them."""
    if not changes:
        return []
    lines = [f"{len(changes)} {'question' if len(changes) == 1 else 'questions'} {what}:"]
    for change in changes[:_MAX_LISTED_QUESTIONS]:
        lines.append(f"  {change.before:.2f} -> {change.after:.2f}  {_short(change.query)}  ({_ranks(change)})")
        lines.append(f"      {change.why}")
    if len(changes) > _MAX_LISTED_QUESTIONS:
        lines.append(f"  … and {len(changes) - _MAX_LISTED_QUESTIONS} more{total}")
    return lines


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _QUESTION else flat[: _QUESTION - 1] + "…"


def _ranks(change: ScoreChange) -> str:
    ranks = (change.rank_before, change.rank_after)
    return " -> ".join("not found" if rank is None else f"rank {rank}" for rank in ranks)
