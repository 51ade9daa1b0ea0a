"""Reads a model's questions and applies the rules that a question must pass before any further call is spent on it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from surefind.base.prompts.fence import Data
from surefind.base.prompts.values import Message
from surefind.base.protocols import Services
from surefind.base.text.scripts import count_words
from surefind.engine.llm.reply import read_object, same_words
from surefind.lab.exam._words import terms
from surefind.lab.exam.by_llm.passages import SourcePassage
from surefind.lab.exam.by_llm.specific import particular

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "questions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"question": {"type": "string"}, "answer": {"type": "string"}},
            },
        }
    },
}
_SINGLE = ("exam_single", "v1", ("title", "passage"))
MAX_PER_CALL = 3
"""Most questions taken from one call."""
_MAX_ANSWER_WORDS = 60
"""Most words of an answer."""
_ABOUT_ITSELF = re.compile(
    r"\b(?:the|this|these|both|each|first|second|either|provided|given|above)\s+(?:\w+\s+)?"
    r"(?:passages?|texts?|excerpts?|paragraphs?|snippets?)\b|\bpassage \d|\bthis (?:document|section|article|page)\b"
    r"|\b(?:mentioned|described|stated|listed|shown|given) (?:in|by) the (?:document|section|table|list)\b"
    r"|\bsection of the document\b",
    re.IGNORECASE,
)
_ALIKE = 0.8
"""Share of terms in common at which two questions with the same answer count as one."""


def single_prompt(passage: SourcePassage, services: Services) -> list[Message]:
    """The prompt that asks for questions on one passage."""
    title = Data("title", passage.title or passage.document)
    return services.prompt(*_SINGLE).messages(title=title, passage=Data("passage", passage.text))


@dataclass(frozen=True)
class Question:
    text: str
    answer: str
    passages: tuple[SourcePassage, ...]
    start: int
    end: int
    """`start` and `end` are the answer's offsets in the document of `passages[0]`."""
    shared: tuple[str, ...] = ()
    """The entities that its two passages share."""


def read_questions(
    reply: str, passages: Sequence[SourcePassage], shared: Sequence[str] = ()
) -> tuple[list[Question], list[str]]:
    """The usable questions in a reply, and the reasons why the others are not."""
    parsed = read_object(reply)
    rows = parsed.get("questions") if parsed else None
    if not isinstance(rows, list):
        return [], ["no JSON in the model's answer"]
    made: list[Question] = []
    refused: list[str] = []
    for row in rows[:MAX_PER_CALL]:
        question = _question(row, passages, tuple(shared))
        (refused if isinstance(question, str) else made).append(question)  # type: ignore[arg-type]
    return made, refused


def _question(row: Any, passages: Sequence[SourcePassage], shared: tuple[str, ...]) -> Question | str:
    """A question, or what is wrong with it."""
    text, answer = (row.get("question"), row.get("answer")) if isinstance(row, dict) else (None, None)
    if not isinstance(text, str) or not isinstance(answer, str) or not answer.strip() or not terms(text):
        return "no question and answer"
    text, answer = " ".join(text.split()), answer.strip()
    if mentions_its_passage(text):
        return "mentions its passage"
    if not particular(text) or any(same_words(answer, passage.title) for passage in passages if passage.title):
        return "asks for nothing in particular"
    if count_words(answer) > _MAX_ANSWER_WORDS:
        return "the answer is too long"
    if len(answer) > 2 and answer.lower() in text.lower():
        return "contains its own answer"
    for i, passage in enumerate(passages):
        span = find_answer(answer, passage.text)
        if span:
            start, end = passage.start + span[0], passage.start + span[1]
            others = (*passages[:i], *passages[i + 1 :])
            return Question(text, passage.text[slice(*span)], (passage, *others), start, end, shared)
    return "the answer is not an exact substring"


def mentions_its_passage(text: str) -> bool:
    """Whether a question speaks of the text that it was made from."""
    return _ABOUT_ITSELF.search(text) is not None


def find_answer(answer: str, text: str) -> tuple[int, int] | None:
    """The span of the answer in the text, letter for letter; only white space may differ."""
    at = text.find(answer)
    if at >= 0:
        return at, at + len(answer)
    match = re.search(r"\s+".join(map(re.escape, answer.split())), text)
    return match.span() if match else None


class Seen:
    """The questions taken so far. Questions with the same words in any order, or almost the same, count as one."""

    def __init__(self) -> None:
        self._keys: set[frozenset[str]] = set()
        self._answers: dict[tuple[str, int], list[frozenset[str]]] = {}

    def take(self, question: Question) -> bool:
        """Adds the question; returns whether it was new."""
        key = frozenset(terms(question.text))
        same = self._answers.setdefault((question.passages[0].document, question.start), [])
        if key in self._keys or any(len(key & other) >= _ALIKE * len(key | other) for other in same):
            return False
        self._keys.add(key)
        same.append(key)
        return True
