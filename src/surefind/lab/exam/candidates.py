"""Candidate questions of an exam: questions that people asked, whose answers nobody has marked yet."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from surefind.base.text.fold import fold
from surefind.lab.exam.questions import Questions

Verdict = Literal["", "none", "rejected"]
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
    verdict: Verdict = ""

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
        self._known = {key: Candidate(*values) for key, *values in store.candidates(exam)}

    def all(self) -> list[Candidate]:
        return list(self._known.values())

    def collect(self, texts: Iterable[str], source: str) -> ImportReport:
        """Adds the texts that may be questions. A question that is already there is counted, not added."""
        made, known = self.merged(texts, source)
        self._write(known)
        return made

    def merged(self, texts: Iterable[str], source: str) -> tuple[ImportReport, dict[str, Candidate]]:
        """Does what `collect` does, but returns the candidates instead of storing them."""
        made, known = ImportReport(), dict(self._known)
        new: list[str] = []
        for text in texts:
            flat = _SPACE.sub(" ", text).strip()
            reason, key = unfit(flat), normalised(flat)
            if reason:
                made.skipped[reason] += 1
            elif key in known:
                known[key] = replace(known[key], asked=known[key].asked + 1)
                made.skipped["asked before"] += 1
            else:
                known[key] = Candidate(flat, source)
                new.append(key)
        made.added = [known[key] for key in new]
        return made, known

    def judge(self, text: str, verdict: Verdict) -> None:
        """Stores a verdict on a question; an empty one takes an earlier verdict back."""
        known = dict(self._known)
        key = normalised(text)
        known[key] = replace(known.get(key) or Candidate(text), verdict=verdict)
        self._write(known)

    def _write(self, known: dict[str, Candidate]) -> None:
        changed = [
            (key, candidate.text, candidate.source, candidate.asked, candidate.verdict)
            for key, candidate in known.items()
            if candidate != self._known.get(key)
        ]
        if changed:
            self._store.put_candidates(self._exam, changed)
        self._known = known
