"""The questions that people asked, and what they judged: one SQLite file, `.surefind/exams/questions.db`.

    candidates   questions of an exam without judgments: their source, and how often they were asked
    pools        the passages that the judges of an exam see, of all its questions
    labels       which of these passages a judge finds relevant to a question, best first
    feedback     thumbs and clicks on hits, as they came

Every change is saved at once. The versions of an exam, which are made of
these, are files of their own (`store.ExamStore`). The queries of searches have a log of their own (`kb.queries`),
which may be deleted at any time; judgments may not.

Candidate questions of an exam: questions that people asked, whose answers nobody has marked yet.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from surefind.base.text.words import fold
from surefind.engine.store.database import Format
from surefind.engine.store.shared_file import FileKind, SharedFile

NAME = "questions.db"
_COLUMNS = {
    "candidates": ("id", "exam", "key", "text", "source", "asked"),
    "pools": ("id", "exam", "corpus", "configurations", "questions"),
    "labels": ("id", "exam", "judge", "query", "passages"),
    "feedback": ("id", "at", "query", "document", "first", "last", "kind", "caller"),
}
_UNIQUE = {"candidates": "exam, key", "pools": "exam", "labels": "exam, judge, query", "feedback": "id"}
FORMAT = Format(
    2,
    tuple(
        f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, {', '.join(_COLUMNS[table][1:])}, UNIQUE ({unique}))"
        for table, unique in _UNIQUE.items()
    ),
)
_KIND = FileKind(
    "The file of questions and judgments",
    f"Restore the files {NAME}* from a backup, or move them away to begin without collected questions, labels and "
    "feedback: exams that were made of them are not affected.",
    FORMAT,
)


class Questions:
    """The file in a folder of exams."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME

    # ------------------------------------------------------------ candidates

    def candidates(self, exam: str) -> list[tuple[Any, ...]]:
        """Returns (key, text, source, asked) of each candidate, in the order in which they came."""
        return [row[2:] for row in self._group("candidates", exam)]

    def put_candidates(self, exam: str, rows: Iterable[Sequence[Any]]) -> None:
        """Adds candidates, or changes those with the same key."""
        with self._writing() as db:
            db.executemany(
                "INSERT INTO candidates (exam, key, text, source, asked) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (exam, key) DO UPDATE SET asked = excluded.asked",
                [(exam, *row) for row in rows],
            )

    # ------------------------------------------------------------ pools and labels

    def pool(self, exam: str) -> tuple[str, list[dict[str, Any]]] | None:
        """Returns the fingerprint of the documents and the questions of a pool; None if there is none."""
        rows = self._group("pools", exam)
        return (rows[0][2], json.loads(rows[0][4])) if rows else None

    def put_pool(
        self, exam: str, corpus: str, configurations: Sequence[str], questions: Sequence[Mapping[str, Any]]
    ) -> None:
        made = json.dumps(list(configurations)), json.dumps(list(questions), ensure_ascii=False)
        with self._writing() as db:
            db.execute("DELETE FROM pools WHERE exam = ?", (exam,))
            db.execute(
                "INSERT INTO pools (exam, corpus, configurations, questions) VALUES (?, ?, ?, ?)", (exam, corpus, *made)
            )

    def change_pool(self, exam: str, questions: Sequence[Mapping[str, Any]]) -> None:
        """Replaces the questions of a pool, with their passages."""
        made = json.dumps(list(questions), ensure_ascii=False)
        with self._writing() as db:
            db.execute("UPDATE pools SET questions = ? WHERE exam = ?", (made, exam))

    def labels(self, exam: str) -> dict[str, dict[str, list[Any]]]:
        """Returns the labels of each judge: question -> numbers of passages, in order or in a list without one."""
        labels: dict[str, dict[str, list[Any]]] = {}
        for _, _, judge, query, passages in self._group("labels", exam):
            labels.setdefault(judge, {})[query] = json.loads(passages)
        return labels

    def put_label(self, exam: str, judge: str, query: str, passages: Sequence[Any] | None) -> None:
        """Stores a label; None takes it back."""
        with self._writing() as db:
            db.execute("DELETE FROM labels WHERE (exam, judge, query) = (?, ?, ?)", (exam, judge, query))
            if passages is not None:
                db.execute(
                    "INSERT INTO labels (exam, judge, query, passages) VALUES (?, ?, ?, ?)",
                    (exam, judge, query, json.dumps(list(passages))),
                )

    # ------------------------------------------------------------ feedback

    def add_feedback(self, *row: Any) -> None:
        """Keeps (at, query, document, start, end, kind, caller)."""
        with self._writing() as db:
            columns = ", ".join(_COLUMNS["feedback"][1:])
            db.execute(f"INSERT INTO feedback ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def feedback(self) -> list[tuple[Any, ...]]:
        """Returns all feedback, oldest first."""
        with self._reading() as db:
            columns = ", ".join(_COLUMNS["feedback"][1:])
            return db.execute(f"SELECT {columns} FROM feedback ORDER BY id").fetchall()

    # ------------------------------------------------------------ all of it

    def exams(self) -> list[str]:
        """Returns the names that have candidates or a pool."""
        with self._reading() as db:
            rows = db.execute("SELECT exam FROM candidates UNION SELECT exam FROM pools ORDER BY exam")
            return [name for (name,) in rows.fetchall()]

    def forget(self, exam: str) -> None:
        """Deletes the candidates, the pool and the labels of an exam."""
        if self.path.exists():
            with self._writing() as db:
                for table in ("candidates", "pools", "labels"):
                    db.execute(f"DELETE FROM {table} WHERE exam = ?", (exam,))

    def problems(self) -> list[str]:
        """Returns what is damaged, for `surefind doctor`."""
        with contextlib.closing(SharedFile(self.path, _KIND)) as file:
            return [str(file.damaged(what)) for what in file.problems()]

    def _group(self, table: str, exam: str) -> list[tuple[Any, ...]]:
        with self._reading() as db:
            return db.execute(f"SELECT * FROM {table} WHERE exam = ? ORDER BY id", (exam,)).fetchall()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(SharedFile(self.path, _KIND)) as file, file.reading() as db:
            yield db

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(SharedFile(self.path, _KIND)) as file, file.writing() as db:
            yield db


"""`none`: no passage that was shown answers the question. `rejected`: it is not a real question."""
MAX_QUESTION_CHARS = 400
CONTENT_WORDS = 2
"""The least number of content words of a candidate. An identifier such as AML-204 counts as several."""

_SPACE = re.compile(r"[\s\x00-\x1f\x7f\ud800-\udfff]+")
"""Spaces, control characters, which would act on the terminal that shows the question, and halves of characters, which
no file can store."""
_WORD = re.compile(r"\w+")
_EDGES = " \t?!.,;:…\"'`«»“”„‘’()[]*_-–—"
_POLITE = frozenset(
    "a again afternoon all and anyone are back best bonjour bye cheers day dear danke day doing done evening everybody "
    "everyone for fine folks good goodbye gracias great guys hallo hello help hey hi hiya hola how kind later lol love "
    "many me merci moin morning much my nice night no np of ok okay perfect ping please pls regards right servus so "
    "sounds sure team test testing thank thanks that the there this thx to today tomorrow ty very week weekend welcome "
    "well wow yeah yep yes you your".split()
)
"""Words of greetings, thanks and tests. A text with no other word is no question."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A question without judgments."""

    text: str
    source: str = ""
    """The file it was imported from; `search` if it is a kept query."""
    asked: int = 1
    """How often it was asked."""

    @property
    def key(self) -> str:
        return normalised(self.text)


@dataclass
class ImportReport:
    """The result of an import: the new candidates, and how many texts were left out, by reason."""

    added: list[Candidate] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


def normalised(text: str) -> str:
    """Returns the text in the form in which two questions are compared: without case, accents, spaces and punctuation
    around it."""
    return _SPACE.sub(" ", fold(text)).casefold().strip(_EDGES)


def unfit(text: str) -> str:
    """Returns why a text cannot be a candidate; empty if it can."""
    words = [word.casefold() for word in _WORD.findall(text)]
    if not words:
        return "empty"
    if len(text) > MAX_QUESTION_CHARS:
        return f"longer than {MAX_QUESTION_CHARS} characters"
    if all(word in _POLITE for word in words):
        return "greetings and thanks"
    from surefind.engine.analyze.english import English  # here, because shell completion imports this module

    english = English()
    terms = {term for token in english.content_tokens(text) for term in english.terms(token)}
    return f"fewer than {CONTENT_WORDS} content words" if len(terms) < CONTENT_WORDS else ""


class Candidates:
    """The candidates of one exam. Every change is saved at once."""

    def __init__(self, store: Questions, exam: str) -> None:
        self._store, self._exam = store, exam
        self._candidates = {key: Candidate(*values) for key, *values in store.candidates(exam)}

    def all(self) -> list[Candidate]:
        return list(self._candidates.values())

    def collect(self, texts: Iterable[str], source: str) -> ImportReport:
        """Adds the texts that may be questions. A question that is already there is counted, not added."""
        made, known = self.merged(texts, source)
        self._write(known)
        return made

    def merged(self, texts: Iterable[str], source: str) -> tuple[ImportReport, dict[str, Candidate]]:
        """Does what `collect` does, but returns the candidates instead of storing them."""
        made, candidates = ImportReport(), dict(self._candidates)
        new: list[str] = []
        for text in texts:
            flat = _SPACE.sub(" ", text).strip()
            reason, key = unfit(flat), normalised(flat)
            if reason:
                made.skipped[reason] += 1
            elif key in candidates:
                candidates[key] = replace(candidates[key], asked=candidates[key].asked + 1)
                made.skipped["asked before"] += 1
            else:
                candidates[key] = Candidate(flat, source)
                new.append(key)
        made.added = [candidates[key] for key in new]
        return made, candidates

    def _write(self, candidates: dict[str, Candidate]) -> None:
        changed = [
            (key, candidate.text, candidate.source, candidate.asked)
            for key, candidate in candidates.items()
            if candidate != self._candidates.get(key)
        ]
        if changed:
            self._store.put_candidates(self._exam, changed)
        self._candidates = candidates
