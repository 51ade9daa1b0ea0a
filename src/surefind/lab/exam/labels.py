"""Labels of several judges: everybody judges the same pool of passages, and the judges can be compared.

The pool of a question holds the first passages of several configurations (`asking.Asking.pool`). It is stored when the
first judge begins, so that later judges see the same passages, each judge in an order of their own.

    κ = (p_o - p_e) / (1 - p_e)        p_o: share of passages on which two judges agree, p_e: the share by chance

A passage is gold if at least half of the judges of its question marked it. Judges who put two passages or more in order
give grades:

    grade(p) = mean over these judges of max(1, 4 - rank(p)), rounded

A judge may add a passage from outside the pool; later judges see it after the others. Cohen, A Coefficient of Agreement
for Nominal Scales, 1960; the support-chatbot study pools the first ten of five encoders, has experts rank them, and
lets them add others, which they did in 20% of the cases (section 4.1).
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

from surefind.base.errors import ExamError
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.table import id_of
from surefind.lab.exam.model import Exam, ExamQuery
from surefind.lab.exam.questions import Questions

FAMILY = "labelled"
_BEST_GRADE = 3
"""The grade of a passage that all judges put first."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,60}")


@dataclass(frozen=True)
class PooledPassage:
    """A passage of a pool."""

    document: str
    start: int
    end: int
    title: str = ""
    added: str = ""
    """The judge who added it; empty for a passage that a configuration found."""


@dataclass(frozen=True)
class Pooled:
    """A question and the passages that every judge sees."""

    query: str
    passages: tuple[PooledPassage, ...]

    def order_for(self, judge: str) -> list[int]:
        """The numbers of the passages in the order in which a judge sees them: another one for each judge. Those that
        judges added come last, so that the numbers of the others stay the same."""
        order = [i for i, passage in enumerate(self.passages) if not passage.added]
        random.Random(f"{judge} {self.query}").shuffle(order)
        return order + [i for i, passage in enumerate(self.passages) if passage.added]


Marks = Mapping[str, Sequence[int]]
"""The labels of one judge: question -> numbers of the relevant passages in its pool, best first."""


class Labels:
    """The pool of an exam and the labels of its judges. Every label is saved at once."""

    def __init__(self, store: Questions, exam: str) -> None:
        self._store, self.exam = store, exam

    def pool(self) -> list[Pooled]:
        """The pool; empty before the first judge begins."""
        _, rows = self._store.pool(self.exam) or ("", [])
        return [Pooled(row["query"], tuple(PooledPassage(**passage) for passage in row["passages"])) for row in rows]

    def check(self, corpus: str) -> None:
        """Raises `ExamError` if the pool was made of other documents than these."""
        made, _ = self._store.pool(self.exam) or (corpus, [])
        if made != corpus:
            raise ExamError(
                f"The documents have changed since the pool of {self.exam} was made, so its passages are no longer the "
                "same. Collect the questions under another name, and label those."
            )

    def put_pool(self, pool: Sequence[Pooled], configurations: Sequence[str], corpus: str) -> None:
        self._store.put_pool(self.exam, corpus, configurations, [asdict(pooled) for pooled in pool])

    def add(self, query: str, passage: PooledPassage) -> None:
        """Adds a passage to the pool of a question."""
        pool = [
            replace(pooled, passages=(*pooled.passages, passage)) if pooled.query == query else pooled
            for pooled in self.pool()
        ]
        self._store.change_pool(self.exam, [asdict(pooled) for pooled in pool])

    def all(self) -> dict[str, dict[str, list[int]]]:
        """The labels of each judge who has labelled something."""
        stored = sorted(self._store.labels(self.exam).items())
        return {judge: {query: _flat(marks) for query, marks in own.items()} for judge, own in stored}

    def ranked(self) -> dict[str, dict[str, list[int]]]:
        """The labels that are in an order: those of judges who put two passages or more in order."""
        stored = sorted(self._store.labels(self.exam).items())
        return {judge: {query: _flat(marks) for query, marks in own.items() if len(marks) > 1} for judge, own in stored}

    def of(self, judge: str) -> dict[str, list[int]]:
        """The labels of a judge; empty before the first one."""
        if not _NAME.fullmatch(judge):
            raise ExamError(f"A judge cannot be called {judge!r}. Use letters, digits, '-', '_' and '.'.")
        return self.all().get(judge, {})

    def mark(self, judge: str, query: str, passages: Sequence[int] | None, ranked: bool = True) -> None:
        """Stores which passages of a question are relevant, best first unless they are not `ranked`; none if no passage
        is. None takes an earlier label back."""
        together = [list(passages)] if passages and not ranked else passages
        self._store.put_label(self.exam, judge, query, together)


def _flat(marks: Sequence[Any]) -> list[int]:
    """The numbers of a stored label: a list of numbers is in order, a list within the list is not."""
    return [number for mark in marks for number in (mark if isinstance(mark, list) else [mark])]


# ---------------------------------------------------------------- agreement


@dataclass(frozen=True)
class Agreement:
    """How far two judges agree on the passages that both have judged."""

    first: str
    second: str
    questions: int
    passages: int
    observed: float
    """The share of passages on which they agree."""
    kappa: float | None
    """Cohen's κ; None if chance explains everything, because both gave one and the same label to all passages."""


def agreement(pool: Sequence[Pooled], labels: Mapping[str, Marks]) -> list[Agreement]:
    """The agreement of every pair of judges with a question in common."""
    sizes = {pooled.query: len(pooled.passages) for pooled in pool}
    agreements = []
    for first, second in combinations(sorted(labels), 2):
        shared = [query for query in sizes if query in labels[first] and query in labels[second]]
        pairs = [
            (i in labels[first][query], i in labels[second][query]) for query in shared for i in range(sizes[query])
        ]
        if pairs:
            observed, kappa = cohen(pairs)
            agreements.append(Agreement(first, second, len(shared), len(pairs), observed, kappa))
    return agreements


def cohen(pairs: Sequence[tuple[bool, bool]]) -> tuple[float, float | None]:
    """The observed agreement of two judges, and Cohen's κ."""
    count = len(pairs)
    observed = sum(a == b for a, b in pairs) / count
    yes = [sum(pair[i] for pair in pairs) / count for i in range(2)]
    chance = yes[0] * yes[1] + (1 - yes[0]) * (1 - yes[1])
    return observed, None if chance == 1 else (observed - chance) / (1 - chance)


# ---------------------------------------------------------------- the exam


def exam_of(
    name: str,
    pool: Sequence[Pooled],
    labels: Mapping[str, Marks],
    library: Library,
    corpus: str = "",
    ranked: Mapping[str, Marks] | None = None,
) -> Exam:
    """The exam of all labels, with grades by those that are `ranked`. Questions without a gold passage are left out."""
    queries = [made for pooled in pool if (made := _query(pooled, labels, library, ranked or {})) is not None]
    return Exam(name, tuple(queries), 0, f"label {name} by {', '.join(sorted(labels))}", corpus)


def gold_of(pooled: Pooled, labels: Mapping[str, Marks]) -> list[int]:
    """The numbers of the passages that at least half of the judges of a question marked."""
    votes = [marks[pooled.query] for marks in labels.values() if pooled.query in marks]
    return [i for i in range(len(pooled.passages)) if votes and 2 * sum(i in vote for vote in votes) >= len(votes)]


def grade_of(number: int, orders: Sequence[Sequence[int]]) -> int:
    """The grade of a passage by the orders of judges; 1 if none of them has it."""
    points = [max(1, _BEST_GRADE - order.index(number)) for order in orders if number in order]
    return int(sum(points) / len(points) + 0.5) if points else 1


def _query(
    pooled: Pooled, labels: Mapping[str, Marks], library: Library, ranked: Mapping[str, Marks]
) -> ExamQuery | None:
    gold = gold_of(pooled, labels)
    if not gold:
        return None
    orders = [marks[pooled.query] for marks in ranked.values() if pooled.query in marks]
    judgments = [
        library.judge(span.document, start=span.start, end=span.end, grade=grade_of(i, orders))
        for i, span in ((i, pooled.passages[i]) for i in gold)
    ]
    judges = sum(pooled.query in marks for marks in labels.values())
    return library.query(id_of(pooled.query), pooled.query, judgments, FAMILY, {"judges": judges})
