"""Keeps a query and the hit that answers it as a question of an exam, with one call.

    kept = keep(kb, "when is the wire cutoff", hit.id, caller.access())

Whoever searches and finds the answer has judged it: one click turns that into a question that benchmarks ask. A second
passage for the same question is added to it. Questions that are kept within an hour of each other are one version of
the exam.

Feedback of people who searched: thumbs and clicks become the exam `feedback`.

    thumb up      the passage answers the question: grade 2
    thumb down    it does not: it loses the judgment if there are as many thumbs down as up
    click         grade 1, once two callers have clicked the same passage for the same question; one click may be a
                  mistake, and people click what stands first

Everything is kept as it came, so that these rules can be applied again.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from surefind.base.access import Access
from surefind.base.errors import ExamError, LockedError
from surefind.engine.search.hits import Extent
from surefind.engine.search.reader import check_query
from surefind.engine.store.lock import growing_lock
from surefind.kb import KnowledgeBase
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.table import id_of
from surefind.lab.exam.model import Exam, ExamQuery, Judgment, readable_questions
from surefind.lab.exam.questions import Questions, normalised
from surefind.lab.exam.store import ExamStore, check_name

FAMILY = "asked"
"""The family of questions that are kept."""
NAME = "kept"
"""The exam that gets the questions, unless another one is named."""
_SITTING = 3600.0
"""Seconds in which kept questions belong to one version."""
_LOCK_SECONDS = 5.0
"""Seconds to wait for somebody else who keeps a question at this moment."""


@dataclass(frozen=True)
class KeptQuestion:
    """What became of a kept question."""

    exam: str
    version: int
    added: bool
    """Whether the exam has changed. It has not if it had the question with this passage."""


def keep(kb: KnowledgeBase, query: str, passage_id: str, access: Access, name: str = NAME) -> KeptQuestion:
    """Adds a query to an exam, answered by the passage with this id. Raises `NotFoundError` if `access` may not read
    the passage, and `ExamError` for an exam that Surefind generates."""
    text = " ".join(query.split())
    check_query(text, 1)
    check_name(name)
    reader = kb.reader()
    hit = reader.passage(passage_id, access, Extent(around=0))
    library = Library([reader.document(hit.document, access)[0]])
    gold = library.judge(hit.document, start=hit.start, end=hit.end)
    asked = library.query(id_of(text), text, (gold,), FAMILY)
    with _alone(kb.data, name):
        store = ExamStore(kb.data / "exams")
        last = store.load(name) if name in store.names() else Exam(name, ())
        return _added(store, last, asked, readable_questions(last, reader, access), reader.fingerprint)


def _added(store: ExamStore, last: Exam, asked: ExamQuery, seen: Sequence[ExamQuery], corpus: str) -> KeptQuestion:
    name = last.name
    if last.generator:
        raise ExamError(f"The exam {name!r} is generated from the documents. Keep questions in another one.")
    queries = _merged(last.queries, asked, seen)
    if queries == last.queries:
        return KeptQuestion(name, last.version, False)
    made = Exam(name, queries, last.version, f"keep {name}", corpus)
    again = last.origin == made.origin and time.time() - store.written(last) < _SITTING
    saved = store.write(made) if again else store.save(replace(made, version=0))
    return KeptQuestion(name, saved.version, True)


def _merged(queries: tuple[ExamQuery, ...], asked: ExamQuery, seen: Sequence[ExamQuery]) -> tuple[ExamQuery, ...]:
    """Returns the questions with this one among them. Questions that differ in case or punctuation only are one, if
    whoever asks may see both (`seen`): the answer says whether there was one, and the question shows its passages."""
    (gold,) = asked.judgments
    key = normalised(asked.text)
    same = next((query for query in seen if normalised(query.text) == key), None)
    if same is None:
        return (*queries, replace(asked, id=_free_id(queries, f"{asked.text}\n{gold.document}\n{gold.quote}")))
    if any((judgment.document, judgment.quote) == (gold.document, gold.quote) for judgment in same.judgments):
        return queries
    shared = max((overlap for overlap in (same.overlap, asked.overlap) if overlap is not None), default=None)
    both = replace(same, judgments=(*same.judgments, gold), overlap=shared)
    return tuple(both if query is same else query for query in queries)


def _free_id(queries: Sequence[ExamQuery], text: str) -> str:
    """Returns an id that no question has. It does not show whether another one was taken."""
    taken = {query.id for query in queries}
    while (query_id := id_of(text)) in taken:
        text += "\n"
    return query_id


@contextlib.contextmanager
def _alone(data: Path, name: str) -> Iterator[None]:
    """Holds the lock of the exam. Waits a little for others; then raises `LockedError`."""
    ends = time.monotonic() + _LOCK_SECONDS
    with contextlib.ExitStack() as held:
        while True:
            try:
                held.enter_context(growing_lock(data, name))
                break
            except LockedError:
                if time.monotonic() > ends:
                    raise
        yield


FEEDBACK = "feedback"
"""The name of the exam."""
Kind = Literal["up", "down", "click"]
_CLICKS = 2
"""Callers who must have clicked a passage."""


@dataclass(frozen=True, slots=True)
class Feedback:
    at: float
    query: str
    document: str
    start: int
    end: int
    kind: Kind
    caller: str


def add(data: Path, query: str, document: str, start: int, end: int, kind: Kind, caller: str) -> None:
    """Keeps feedback on a hit, in the knowledge base with the data folder `data`."""
    Questions(data / "exams").add_feedback(time.time(), " ".join(query.split()), document, start, end, kind, caller)


def given(data: Path) -> list[Feedback]:
    """Returns all feedback, oldest first."""
    return [Feedback(*row) for row in Questions(data / "exams").feedback()]


def grow(kb: KnowledgeBase) -> tuple[Exam | None, int]:
    """Makes an exam of all feedback: a new version if it differs from the last one. Returns it, and the number of
    judgments that were left out because their passage is gone. None if there is nothing to judge by."""
    reader = kb.reader()
    library = Library(reader.documents(Access.owner()))
    queries, gone = [], 0
    for text, marks in _judged(given(kb.data)).items():
        judgments: list[Judgment] = []
        for (document, start, end), grade in marks.items():
            try:
                judgments.append(library.judge(document, "", start, end, grade))
            except ExamError:
                gone += 1
        if judgments:
            queries.append(library.query(id_of(text), text, tuple(judgments), FEEDBACK, {}))
    if not queries:
        return None, gone
    store = ExamStore(kb.data / "exams")
    made = Exam(FEEDBACK, tuple(queries), 0, "feedback", reader.fingerprint)
    with growing_lock(kb.data, FEEDBACK):
        last = store.load(FEEDBACK) if FEEDBACK in store.names() else None
        if last is not None and last.queries == made.queries:
            return last, gone
        return store.save(made), gone


def _judged(feedback: list[Feedback]) -> dict[str, dict[tuple[str, int, int], int]]:
    """Returns the grades of passages, by question. Questions that differ in case or punctuation only are one."""
    texts: dict[str, str] = {}
    thumbs: dict[tuple[str, tuple[str, int, int]], dict[str, int]] = defaultdict(dict)
    clicks: dict[tuple[str, tuple[str, int, int]], set[str]] = defaultdict(set)
    for judgment in feedback:
        key = normalised(judgment.query)
        texts.setdefault(key, judgment.query)
        place = key, (judgment.document, judgment.start, judgment.end)
        if judgment.kind == "click":
            clicks[place].add(judgment.caller)
        else:
            thumbs[place][judgment.caller] = 1 if judgment.kind == "up" else -1  # the last thumb of a caller counts
    judged: dict[str, dict[tuple[str, int, int], int]] = defaultdict(dict)
    for place in dict.fromkeys((*thumbs, *clicks)):
        key, passage = place
        votes = sum(thumbs[place].values()) if place in thumbs else None
        if votes is None and len(clicks[place]) >= _CLICKS:
            judged[texts[key]][passage] = 1
        elif votes is not None and votes > 0:
            judged[texts[key]][passage] = 2
    return judged
