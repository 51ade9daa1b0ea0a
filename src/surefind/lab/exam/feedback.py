"""Feedback of people who searched: thumbs and clicks become the exam `feedback`.

    thumb up      the passage answers the question: grade 2
    thumb down    it does not: it loses the judgment if there are as many thumbs down as up
    click         grade 1, once two callers have clicked the same passage for the same question; one click may be a
                  mistake, and people click what stands first

Everything is kept as it came, so that these rules can be applied again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from surefind.base.access import Access
from surefind.base.errors import ExamError
from surefind.engine.store.lock import growing_lock
from surefind.kb import KnowledgeBase
from surefind.lab.exam.candidates import normalised
from surefind.lab.exam.formats.table import id_of
from surefind.lab.exam.library import Library
from surefind.lab.exam.model import Exam, Judgment
from surefind.lab.exam.questions import Questions
from surefind.lab.exam.store import ExamStore

NAME = "feedback"
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
            queries.append(library.query(id_of(text), text, tuple(judgments), NAME, {}))
    if not queries:
        return None, gone
    store = ExamStore(kb.data / "exams")
    made = Exam(NAME, tuple(queries), 0, "feedback", reader.fingerprint)
    with growing_lock(kb.data, NAME):
        last = store.load(NAME) if NAME in store.names() else None
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
