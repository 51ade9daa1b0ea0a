"""The task of each kind of step: asks the model through the step itself, and counts what was right.

Nothing here has a prompt of its own: a model that passes has passed with the words that the step uses later. A task
returns (right, tasks), and the position bias where lists are shown twice. An answer that the step cannot use is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any, NamedTuple

import numpy as np

from surefind.base.errors import SurefindError
from surefind.base.protocols import Services
from surefind.base.types import Chunk, Document, Hit, Query, Rankings, SearchResult, Signal
from surefind.engine.chunk.llm_segments import LLMSegments
from surefind.engine.enrich.llm_context import LLMContext
from surefind.engine.extract.llm import LLM
from surefind.engine.fuse.llm_weights import LLMWeights, even_weights
from surefind.engine.llm.ask import ask, shares_words
from surefind.engine.llm.chat import map_calls
from surefind.engine.llm.listwise import position_bias
from surefind.engine.rerank.agentic import Agentic
from surefind.engine.rerank.llm_listwise import LLMListwise
from surefind.engine.retrieve.hyde import HyDE
from surefind.engine.retrieve.multi_query import MultiQuery
from surefind.kb.answer.written import write
from surefind.lab.exam.by_llm.questions import SCHEMA, SourcePassage, read_questions, single_prompt
from surefind.lab.fitness.kinds import Fact, cases, facts, lists

_WORD = re.compile(r"\w{4,}")
_PARALLEL = 8
"""Documents or answers that are worked on at once."""
_TEXTS = 6
"""Texts that are split, each made of three passages."""


class Counted(NamedTuple):
    right: int
    tasks: int
    bias: float | None = None


def order(services: Services, model: str | None) -> Counted:
    """The right passage first, in each of two readings."""
    shown = lists()
    stage = LLMListwise(model, top=len(shown[0][1]), keep=len(shown[0][1]))
    readings = stage.readings([(fact.question, chunks) for fact, chunks, _ in shown], services)
    firsts = [
        (place, one[0])
        for (_, _, place), reading in zip(shown, readings, strict=True)
        for one in reading.orders
        if not isinstance(one, SurefindError)
    ]
    pairs = [orders for reading in readings if len(orders := reading.complete) == 2]
    bias = mean(position_bias(*pair) for pair in pairs) if pairs else None
    return Counted(sum(place == first for place, first in firsts), 2 * len(shown), bias)


def gather(services: Services, model: str | None) -> Counted:
    """The right passage, shown last, is the evidence and rises as far as evidence can."""
    shown = [(fact, [*chunks[:place], *chunks[place + 1 :], chunks[place]]) for fact, chunks, place in lists()]
    texts = _Texts([chunk for _, chunks in shown for chunk in chunks])
    size = len(shown[0][1])
    ids = np.arange(len(texts.chunks)).reshape(len(shown), size)
    before = Rankings(ids, np.tile(np.linspace(1, 0.5, size, dtype=np.float32), (len(shown), 1)))
    stage = Agentic(model, steps=1, look=size)
    after = stage.rerank([Query(fact.question) for fact, _ in shown], before, texts, size, services)
    return Counted(sum(int(row[-1]) in after.ids[i, :2] for i, row in enumerate(ids)), len(shown))


def split(services: Services, model: str | None) -> Counted:
    """The places where one of three topics ends; a place too many counts as wrong, as one too few does."""
    known = facts()
    stage = LLMSegments(model, words=40, tries=1)
    documents, edges = [], []
    for number in range(_TEXTS):
        parts = [known[(2 * number + 4 * step) % len(known)].passage for step in range(3)]
        documents.append(Document(f"{number}.txt", " ".join(parts), format="text"))
        starts = [len(parts[0]) + 1, len(parts[0]) + len(parts[1]) + 2]
        edges.append(set(starts))
    made = _parallel(lambda document: stage.chunk(document, services), documents)
    right = tasks = 0
    for chunks, true in zip(made, edges, strict=True):
        starts = [] if isinstance(chunks, SurefindError) else [chunk.start for chunk in chunks[1:]]
        hits = sum(any(abs(start - edge) <= 1 for start in starts) for edge in true)
        right, tasks = right + hits, tasks + max(len(true), len(starts))
    return Counted(right, tasks)


def place(services: Services, model: str | None) -> Counted:
    """The context names the subject of the document, which the passage does not."""
    rows = cases()["places"]
    stage = LLMContext(model)

    def context(row: dict[str, str]) -> str:
        start = row["text"].index(row["chunk"])
        chunk = Chunk(row["title"], start, start + len(row["chunk"]), row["chunk"])
        document = Document(row["title"], row["text"], row["title"])
        return stage.enrich(document, [chunk], services)[0].context

    made = _parallel(context, rows)
    right = [isinstance(text, str) and row["subject"] in text.casefold() for row, text in zip(rows, made, strict=True)]
    return Counted(sum(right), len(rows))


def extract(services: Services, model: str | None) -> Counted:
    """Every name in the text, as it is written there."""
    rows = cases()["entities"]
    right = tasks = 0
    for row, read in zip(rows, LLM(model).read([row["text"] for row in rows], services), strict=True):
        names = set() if isinstance(read, SurefindError) else {mention.name.casefold() for mention in read.mentions}
        right += sum(any(name.casefold() in name_of for name_of in names) for name in row["names"])
        tasks += max(len(row["names"]), len(names))
    return Counted(right, tasks)


def question(services: Services, model: str | None) -> Counted:
    """A question that passes the rules of exams and names what it is about."""
    passages = [SourcePassage(f"{fact.title}.md", 0, len(fact.passage), fact.passage, fact.title) for fact in facts()]
    prompts = [single_prompt(passage, services) for passage in passages]
    answers = ask(services, model, prompts, schema=SCHEMA, max_tokens=600)
    right = 0
    for passage, answer in zip(passages, answers, strict=True):
        questions = [] if isinstance(answer, SurefindError) else read_questions(answer.text, [passage])[0]
        right += any(shares_words(question_made.text, f"{passage.title} {passage.text}") for question_made in questions)
    return Counted(right, len(passages))


def weigh(services: Services, model: str | None) -> Counted:
    """More weight than an even share for the method that suits the query: words for codes, meaning for paraphrases."""
    rows = cases()["weigh"]
    queries = [Query(row["query"]) for row in rows]
    signals: list[Signal] = ["sparse", "dense"]
    rankings = [
        _scored([row["method"] == "bm25" for row in rows], "bm25", "sparse", 14.0),
        _scored([row["method"] == "dense" for row in rows], "dense", "dense", 0.8),
    ]
    made = LLMWeights(model).weights(queries, rankings, services)
    right = 0
    for row, weights in zip(rows, made, strict=True):
        at = 0 if row["method"] == "bm25" else 1
        right += weights[at] > even_weights(signals)[at] + 0.005
    return Counted(right, len(rows))


def draft(services: Services, model: str | None) -> Counted:
    """A passage with words of the question and with words of the answer that the question does not have."""
    made = HyDE(model=model).drafted([Query(fact.question) for fact in facts()], services)
    right = sum(any(_helps(fact, text) for text in texts) for fact, texts in zip(facts(), made, strict=True))
    return Counted(right, len(facts()))


def rewrite(services: Services, model: str | None) -> Counted:
    """Two or more other wordings that keep a word of the question and add two."""
    made = MultiQuery(model=model).rewritten([Query(fact.question) for fact in facts()], services)
    right = 0
    for fact, texts in zip(facts(), made, strict=True):
        own = _words(fact.question)
        right += sum(bool(_words(text) & own) and len(_words(text) - own) >= 2 for text in texts) >= 2
    return Counted(right, len(facts()))


def answer(services: Services, model: str | None) -> Counted:
    """The answer where a passage has it, and none where no passage has it."""
    known = facts()
    asked: list[tuple[Fact, bool]] = [(fact, number % 2 == 0) for number, fact in enumerate(known)]

    def right(item: tuple[Fact, bool]) -> bool:
        fact, answerable = item
        second = fact if answerable else known[(known.index(fact) + 3) % len(known)]
        hits = [_hit(1, fact.title, fact.near), _hit(2, second.title, second.passage)]
        written = write(SearchResult(fact.question, tuple(hits), ()), services, model)
        said = " ".join(sentence.text for sentence, _ in written.said).casefold()
        return fact.answer.casefold() in said if answerable else not said

    return Counted(sum(outcome is True for outcome in _parallel(right, asked)), len(asked))


class _Texts:
    """Passages by their place in a list."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = chunks

    def __getitem__(self, ids: Sequence[int]) -> list[Chunk]:
        return [self.chunks[number] for number in ids]


def _parallel(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Runs the work on all items at once. If every call fails, the first error is raised."""
    made = map_calls(work, items, _PARALLEL)
    failed = [outcome for outcome in made if isinstance(outcome, SurefindError)]
    if failed and len(failed) == len(made):
        raise failed[0]
    return made


def _scored(stands_out: Sequence[bool], source: str, signal: Signal, top: float) -> Rankings:
    """Rankings of twenty passages: one stands out in the rows that say so, and in the others all are alike."""
    ids = np.tile(np.arange(20) + (0 if signal == "sparse" else 10), (len(stands_out), 1))
    flat, steep = (top * np.linspace(high, low, 20) for high, low in ((0.5, 0.47), (0.6, 0.3)))
    scores = np.array([np.concatenate([[top], steep[1:]]) if high else flat for high in stands_out], np.float32)
    return Rankings(ids, scores, source, signal)


def _helps(fact: Fact, text: str) -> bool:
    own, passage, words = _words(fact.question), _words(fact.passage), _words(text)
    return bool(words & own) and bool(words & (passage - own))


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _hit(rank: int, title: str, text: str) -> Hit:
    return Hit(rank, 1.0, f"{title}.md", str(rank), title, (), 0, len(text), text, {}, {})


TASKS = {
    task.__name__: task for task in (order, gather, weigh, draft, rewrite, split, place, extract, question, answer)
}
"""The task of each kind of work, by its name."""
