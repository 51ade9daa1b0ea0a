"""A session that grows an exam: the answers of a person become judgments, and every answer is saved at once.

A session adds one version to the exam. The first answer creates it and every later one writes its file again, so that a
crash loses nothing. "None of these" and "not a question" are stored with the candidates.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from surefind.errors import ExamError
from surefind.exam.candidates import Candidate, Candidates, Verdict, normalised
from surefind.exam.formats.files import read_row, read_text
from surefind.exam.formats.table import id_of
from surefind.exam.library import Complaints, Library
from surefind.exam.model import Exam, ExamQuery, Judgment
from surefind.exam.store import ExamStore
from surefind.store.lock import growing_lock

FAMILY = "asked"
"""The family of questions that a session adds."""


@dataclass(frozen=True)
class PersonAnswer:
    """A person's answer: the passages that answer the question, or a verdict if there are none."""

    query: str
    judgments: tuple[Judgment, ...] = ()
    verdict: Verdict = ""
    chosen: str = ""
    """How the question was chosen: `disagreement` or `random`. Differences between configurations are larger on
    questions chosen by disagreement than on others."""
    disagreement: float | None = None
    """How much the configurations disagree on it (`exam.disagreement`), if it was chosen by that."""
    typical: float | None = None
    """The mean disagreement over all questions that could have been asked."""


class GrowingSession:
    """One session on one exam. `growing` opens it."""

    def __init__(self, store: ExamStore, name: str, library: Library, corpus: str = "") -> None:
        self.candidates: Candidates = store.candidates(name)
        self._store = store
        self._library = library
        self._base = store.load(name) if name in store.names() else Exam(name, ())
        self._corpus = corpus
        self._answers: list[PersonAnswer] = []
        self._queries = self._base.queries
        self.saved: Exam | None = None
        """The version that this session added; None before the first marked passage."""

    @property
    def name(self) -> str:
        return self._base.name

    @property
    def answers(self) -> Sequence[PersonAnswer]:
        """The answers of this session that were not taken back."""
        return self._answers

    def open_candidates(self, logged: Iterable[str] = ()) -> list[Candidate]:
        """Returns the candidates that have no answer yet, with those of the kept queries (`logged`)."""
        _, known = self.candidates.merged(logged, "search")
        answered = {normalised(query.text) for query in self._queries}
        return [candidate for key, candidate in known.items() if not candidate.verdict and key not in answered]

    def judge(self, document: str, start: int | None, end: int | None, text: str = "") -> Judgment:
        """Returns the judgment that a passage answers a question. Raises `ExamError` if there is no such passage."""
        return self._library.judge(document, text, start, end)

    def answer(self, *answers: PersonAnswer) -> None:
        """Saves answers. A new answer to a question of the exam replaces the old one."""
        for answer in answers:
            if answer.verdict:
                self.candidates.judge(answer.query, answer.verdict)
            self._answers.append(answer)
        self._save()

    def undo(self) -> PersonAnswer | None:
        """Takes the last answer of this session back and returns it; None if there is none."""
        if not self._answers:
            return None
        last = self._answers.pop()
        if last.verdict:
            self.candidates.judge(last.query, "")
        self._save()
        return last

    def close(self) -> None:
        """Deletes the version that this session added if it has the questions of the version before."""
        if self.saved and self.saved.queries == self._base.queries:
            self._store.withdraw(self.saved)
            self.saved = None

    def _save(self) -> None:
        queries = {normalised(query.text): query for query in self._base.queries}
        for answer in self._answers:
            key = normalised(answer.query)
            queries.pop(key, None)
            if answer.judgments:
                queries[key] = self._query(answer)
        self._queries = tuple(queries.values())
        if self._queries == (self.saved or self._base).queries:
            return
        made = Exam(self._base.name, self._queries, 0, f"grow {self._base.name}", self._corpus)
        if self.saved is None:
            self.saved = self._store.save(made)
        else:
            self.saved = self._store.write(replace(made, version=self.saved.version))

    def _query(self, answer: PersonAnswer) -> ExamQuery:
        about = {"chosen": answer.chosen, "disagreement": answer.disagreement, "typical": answer.typical}
        metadata = {key: value for key, value in about.items() if value}
        return self._library.query(id_of(answer.query), answer.query, answer.judgments, FAMILY, metadata)


@contextlib.contextmanager
def growing(data: Path, name: str, library: Library, corpus: str = "") -> Iterator[GrowingSession]:
    """Opens a session on an exam of the knowledge base in `data`. Raises `LockedError` if another session is open. If
    every answer was taken back, the version is deleted at the end."""
    store = ExamStore(data / "exams")
    store.candidates(name)  # checks the name before it becomes a file name of the lock
    with growing_lock(data, name):
        session = GrowingSession(store, name, library, corpus)
        try:
            yield session
        finally:
            session.close()


def read_answers(path: Path, session: GrowingSession) -> list[PersonAnswer]:
    """Reads answers from JSON lines: {"query", "relevant": [{"document", "start", "end"}]}, or with `text` instead of
    `start` and `end`. An empty `relevant` means that no passage answers the question; "rejected": true means that it is
    not a question. `disagreement` and `typical` of `exam grow --json` may be copied. If any row is bad, nothing is
    used."""
    complaints, answers = Complaints(path), []
    for number, line in enumerate(read_text(path, "utf-8-sig").split("\n"), 1):
        if line.strip():
            try:
                answers.append(_answer(read_row(line), session))
            except (ExamError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
                complaints.add(number, f"it has no {error}" if isinstance(error, KeyError) else str(error))
    complaints.refuse()
    return answers


def _answer(row: Mapping[str, Any], session: GrowingSession) -> PersonAnswer:
    text = " ".join(str(row["query"]).split())
    if not text:
        raise ExamError("it has no query")
    if row.get("rejected"):
        return PersonAnswer(text, verdict="rejected")
    gold = [session.judge(g["document"], g.get("start"), g.get("end"), g.get("text") or "") for g in row["relevant"]]
    own, typical = (None if row.get(key) is None else float(row[key]) for key in ("disagreement", "typical"))
    chosen = "" if own is None else "disagreement"
    return PersonAnswer(text, tuple(gold), "" if gold else "none", chosen, own, typical)
