"""Labels of several judges: everybody judges the same pool of passages, and the judges can be compared.

The pool of a question holds the first passages of several configurations (`asking.Asking.pool`). It is stored when the
first judge begins, so that later judges see the same passages, each judge in an order of their own.

    κ = (p_o - p_e) / (1 - p_e)        p_o: share of passages on which two judges agree, p_e: the share by chance

A passage is gold if at least half of the judges of its question marked it. Cohen, A Coefficient of Agreement for
Nominal Scales, 1960; the support-chatbot study pools the first ten of five encoders for its experts (section 4.1).
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations

from surefind.errors import ExamError
from surefind.exam.formats.table import id_of
from surefind.exam.library import Library
from surefind.exam.model import Exam, ExamQuery
from surefind.exam.questions import Questions

FAMILY = "labelled"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,60}")


@dataclass(frozen=True)
class PooledPassage:
    """A passage of a pool."""

    document: str
    start: int
    end: int
    title: str = ""


@dataclass(frozen=True)
class Pooled:
    """A question and the passages that every judge sees."""

    query: str
    passages: tuple[PooledPassage, ...]

    def order_for(self, judge: str) -> list[int]:
        """The numbers of the passages in the order in which a judge sees them: another one for each judge."""
        order = list(range(len(self.passages)))
        random.Random(f"{judge} {self.query}").shuffle(order)
        return order


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
        self._store.put_pool(self.exam, corpus, configurations, [asdict(one) for one in pool])

    def all(self) -> dict[str, dict[str, list[int]]]:
        """The labels of each judge who has labelled something."""
        return dict(sorted(self._store.labels(self.exam).items()))

    def of(self, judge: str) -> dict[str, list[int]]:
        """The labels of a judge; empty before the first one."""
        if not _NAME.fullmatch(judge):
            raise ExamError(f"A judge cannot be called {judge!r}. Use letters, digits, '-', '_' and '.'.")
        return self.all().get(judge, {})

    def mark(self, judge: str, query: str, passages: Sequence[int] | None) -> None:
        """Stores which passages of a question are relevant, best first; none if no passage is. None takes an earlier
        label back."""
        self._store.put_label(self.exam, judge, query, passages)


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
    sizes = {one.query: len(one.passages) for one in pool}
    found = []
    for first, second in combinations(sorted(labels), 2):
        shared = [query for query in sizes if query in labels[first] and query in labels[second]]
        pairs = [
            (i in labels[first][query], i in labels[second][query]) for query in shared for i in range(sizes[query])
        ]
        if pairs:
            observed, kappa = cohen(pairs)
            found.append(Agreement(first, second, len(shared), len(pairs), observed, kappa))
    return found


def cohen(pairs: Sequence[tuple[bool, bool]]) -> tuple[float, float | None]:
    """The observed agreement of two judges, and Cohen's κ."""
    count = len(pairs)
    observed = sum(a == b for a, b in pairs) / count
    yes = [sum(pair[i] for pair in pairs) / count for i in range(2)]
    chance = yes[0] * yes[1] + (1 - yes[0]) * (1 - yes[1])
    return observed, None if chance == 1 else (observed - chance) / (1 - chance)


# ---------------------------------------------------------------- the exam


def exam_of(name: str, pool: Sequence[Pooled], labels: Mapping[str, Marks], library: Library, corpus: str = "") -> Exam:
    """The exam of all labels. Questions without a gold passage are left out."""
    queries = [made for one in pool if (made := _query(one, labels, library)) is not None]
    return Exam(name, tuple(queries), 0, f"label {name} by {', '.join(sorted(labels))}", corpus)


def _query(pooled: Pooled, labels: Mapping[str, Marks], library: Library) -> ExamQuery | None:
    votes = [marks[pooled.query] for marks in labels.values() if pooled.query in marks]
    gold = [i for i in range(len(pooled.passages)) if votes and 2 * sum(i in vote for vote in votes) >= len(votes)]
    if not gold:
        return None
    spans = [pooled.passages[i] for i in gold]
    judgments = [library.judge(span.document, start=span.start, end=span.end) for span in spans]
    return library.query(id_of(pooled.query), pooled.query, judgments, FAMILY, {"judges": len(votes)})
