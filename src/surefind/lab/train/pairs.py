"""Collects training pairs from the knowledge base itself: questions with the passage that answers each.

- `exam`: the tuning half of an exam, each question with a passage on its gold span;
- `headings`: a heading and the passage under it, without the heading's own line (or the model would learn to match it);
- `links`: the words of a link and the beginning of the page (or section) that it leads to;
- `llm`: questions that a language model writes about a passage (`llm_pairs`).

The held-out half is not learnt: pairs with its questions, or with passages that answer them, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from surefind.base.text.links import linked_path
from surefind.base.text.scripts import count_words
from surefind.base.types import Chunk, Document
from surefind.lab.exam.families.heading_direct import clean_heading
from surefind.lab.exam.model import ExamQuery
from surefind.lab.measure.gains import ChunkSpans, Judge

SOURCES = ("exam", "headings", "links")
ALL_SOURCES = (*SOURCES, "llm")
_LINK = re.compile(r"(?<!!)\[([^\]\n]{3,120})\]\(([^)\s]+)\)")
_SHORTEST = 40
"""Fewest characters of a passage in a pair."""


@dataclass(frozen=True)
class Pair:
    query: str
    title: str
    """The context above the passage (title and headings); "" if the question was made from it."""
    text: str
    document: str
    source: str
    negative: str = ""
    """A passage that looks like an answer but is not, if a language model wrote one."""

    @property
    def passage(self) -> str:
        """The text that an encoder reads."""
        return f"{self.title}\n{self.text}" if self.title else self.text


class PassageSet:
    """The passages of a layout by document, and which of them must not be learnt."""

    def __init__(self, chunks: Sequence[Chunk], held: Sequence[ExamQuery], places: ChunkSpans) -> None:
        self.chunks = chunks
        self._by_document: dict[str, list[int]] = {}
        for ordinal, chunk in enumerate(chunks):
            self._by_document.setdefault(chunk.document, []).append(ordinal)
        self._held_questions = {_plain(query.text) for query in held}
        self._answers = set(self._answering(held, places))

    def _answering(self, queries: Sequence[ExamQuery], places: ChunkSpans) -> Iterator[int]:
        judge = Judge(queries, places)
        for q, query in enumerate(queries):
            for document in {judgment.document for judgment in query.judgments}:
                for ordinal in self._by_document.get(document, ()):
                    if judge.relevant(q, ordinal, "span") or judge.relevant(q, ordinal, "chunk"):
                        yield ordinal

    def of(self, document: str) -> list[int]:
        return self._by_document.get(document, [])

    def free(self, query: str, ordinal: int) -> bool:
        """Whether this question and passage may be learnt."""
        return ordinal not in self._answers and _plain(query) not in self._held_questions


def gather_pairs(
    sources: Iterable[str],
    shelf: PassageSet,
    tuning: Sequence[ExamQuery],
    places: ChunkSpans,
    documents: Mapping[str, Document],
) -> list[Pair]:
    """All pairs, each question once per document, in an order that depends on the documents alone."""
    made: dict[tuple[str, str], Pair] = {}
    for source in (name for name in sources if name != "llm"):
        pairs = {
            "exam": lambda: _from_exam(shelf, tuning, places),
            "headings": lambda: _from_headings(shelf),
            "links": lambda: _from_links(shelf, documents),
        }[source]()
        for pair in pairs:
            if len(pair.text) >= _SHORTEST:
                made.setdefault((_plain(pair.query), pair.document), pair)
    return list(made.values())


def _from_exam(shelf: PassageSet, tuning: Sequence[ExamQuery], places: ChunkSpans) -> Iterator[Pair]:
    judge = Judge(tuning, places)
    for q, query in enumerate(tuning):
        for document in dict.fromkeys(judgment.document for judgment in query.judgments if judgment.grade > 0):
            there = [o for o in shelf.of(document) if judge.relevant(q, o, "span")][:1]
            for ordinal in there:
                if shelf.free(query.text, ordinal):
                    chunk = shelf.chunks[ordinal]
                    yield Pair(query.text, chunk.context, chunk.text, document, "exam")


def _from_headings(shelf: PassageSet) -> Iterator[Pair]:
    for ordinal, chunk in enumerate(shelf.chunks):
        heading = clean_heading(chunk.headings[-1]) if chunk.headings else ""
        body = without_heading(chunk.text, chunk.headings[-1]) if heading else ""
        if heading and shelf.free(heading, ordinal):
            yield Pair(heading, "", body, chunk.document, "headings")


def without_heading(text: str, heading: str) -> str:
    """The passage without the lines of the heading itself, in any Markdown form."""
    wanted = _plain(heading)
    lines = [line for line in text.split("\n") if _plain(line.strip("#= -*_")) != wanted]
    return "\n".join(lines).strip()


def _from_links(shelf: PassageSet, documents: Mapping[str, Document]) -> Iterator[Pair]:
    for document in documents.values():
        for words, target in _LINK.findall(document.text):
            path, _, section = target.partition("#")
            aim = linked_path(document.id, path)
            if aim == document.id or aim not in documents or count_words(words) < 2:
                continue
            for ordinal in _aimed(shelf, aim, section):
                if shelf.free(words, ordinal):
                    chunk = shelf.chunks[ordinal]
                    yield Pair(" ".join(words.split()), chunk.context, chunk.text, aim, "links")


def _aimed(shelf: PassageSet, document: str, section: str) -> list[int]:
    """The first passage under the heading that a link names, or the first of the document."""
    ordinals = shelf.of(document)
    wanted = _plain(section.replace("-", " "))
    under = [o for o in ordinals if shelf.chunks[o].headings and _plain(shelf.chunks[o].headings[-1]) == wanted]
    return (under or ordinals)[:1]


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
