"""Reads a model's questions and applies the rules that a question must pass before any further call is spent on it.

Finds questions that many documents answer, so that no search can know which one is meant: "What is the title of the
document?", "What is the name of the member?".

A question fits a document if one of its passages has all of the question's words, apart from those that any question
may have (`_ASKS`). One that fits `_SHARE` of the documents, and at least `_MIN_DOCUMENTS`, asks for nothing in
particular.

Cuts documents into the passages that questions are written from.

    segments    about 1,000 words, from the start of the document on; a segment of fewer than 500 words is left out (the
                agentic-knowledge-base study, section 4.1). A document that has none is cut into sections
    sections    sections, or parts of long sections: 25 to 350 words

They are not the chunks of a layout, because the exam is used to compare chunkers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from surefind.base.prompts.fence import Data
from surefind.base.prompts.values import Message
from surefind.base.protocols import Services
from surefind.base.text.blocks import sections
from surefind.base.text.words import count_words, sentence_spans
from surefind.base.types import Document
from surefind.engine.llm.ask import read_object, same_words
from surefind.lab.exam.overlap import of_token, query_words, terms

Kind = Literal["segments", "sections"]
LIMITS: dict[Kind, tuple[int, int]] = {"segments": (500, 1000), "sections": (25, 350)}
"""Fewest and most words of a passage. Passages end with a sentence, so the most is exceeded by a longer sentence."""


@dataclass(frozen=True)
class SourcePassage:
    document: str
    start: int
    end: int
    text: str
    title: str = ""
    tags: frozenset[str] = field(default_factory=frozenset)

    def overlaps(self, document: str, start: int, end: int) -> bool:
        return self.document == document and start < self.end and self.start < end


def passages(documents: Iterable[Document], kind: Kind = "segments") -> list[SourcePassage]:
    return [passage for document in documents for passage in _of(document, kind) or _of(document, "sections")]


def short(documents: Iterable[Document]) -> int:
    """How many documents have no segment."""
    return sum(not _of(document, "segments") for document in documents)


def _of(document: Document, kind: Kind) -> list[SourcePassage]:
    fewest, most = LIMITS[kind]
    tags = _tags(document)
    own = [sentence_spans(document.text, s.start, s.end) for s in sections(document)]
    runs = own if kind == "sections" else [[sentence for section in own for sentence in section]]
    cut = [
        SourcePassage(document.id, start, end, document.text[start:end], document.title, tags)
        for run in runs
        for start, end in _parts(document.text, run, most)
    ]
    return [passage for passage in cut if count_words(passage.text) >= fewest]


def drawn(items: Sequence[tuple[SourcePassage, ...]], family: str, seed: int) -> list[tuple[SourcePassage, ...]]:
    """Shuffles by the seed alone and takes one item from each document in turn, so that long documents do not fill the
    exam."""
    turns: dict[str, int] = {}
    made = []
    for lot, item in sorted(((_lot(item, family, seed), item) for item in items), key=lambda pair: pair[0]):
        document = item[0].document
        turns[document] = turn = turns.get(document, 0) + 1
        made.append((turn, lot, item))
    return [item for _, _, item in sorted(made, key=lambda entry: entry[:2])]


def _lot(item: tuple[SourcePassage, ...], family: str, seed: int) -> str:
    places = "".join(f"\0{p.document}\0{p.start}\0{p.text}" for p in item)
    return hashlib.blake2b(f"{seed}\0{family}{places}".encode(), digest_size=8).hexdigest()


def _parts(text: str, sentences: Sequence[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Spans of whole sentences with at most `most` words together (a longer sentence is its own span)."""
    made: list[tuple[int, int]] = []
    words = 0
    for left, right in sentences:
        count = count_words(text[left:right])
        if made and words + count <= most:
            made[-1] = (made[-1][0], right)
            words += count
        else:
            made.append((left, right))
            words = count
    return made


def _tags(document: Document) -> frozenset[str]:
    given = document.metadata.get("tags", ())
    listed = given.split(",") if isinstance(given, str) else given if isinstance(given, list | tuple) else ()
    return frozenset(str(tag).strip().lower() for tag in listed if str(tag).strip())


_ASKS = frozenset(
    terms(
        "name title purpose process procedure role version status scope type date number frequency method format total "
        "main goal objective topic subject description definition meaning summary document policy section page file "
        "author company organization product service person people"
    )
)
_SHARE = 0.05
_MIN_DOCUMENTS = 3


def particular(question: str) -> frozenset[str]:
    """The terms of a question that not any question may have; none if it asks for nothing in particular."""
    return frozenset(term for word in query_words(question) for term in of_token(word)) - _ASKS


class Specific:
    """Tells questions that ask for something in particular."""

    def __init__(self, passages: Iterable[SourcePassage]) -> None:
        self._terms = [(passage.document, frozenset(terms(passage.text))) for passage in passages]
        documents = len({document for document, _ in self._terms})
        self._most = max(_MIN_DOCUMENTS, round(_SHARE * documents))

    def __call__(self, question: str) -> bool:
        asked = particular(question)
        fitting: set[str] = set()
        for document, known in self._terms:
            if asked <= known:
                fitting.add(document)
                if len(fitting) >= self._most:
                    return False
        return True


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
