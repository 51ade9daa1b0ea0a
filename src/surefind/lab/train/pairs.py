"""Collects training pairs from the knowledge base itself: questions with the passage that answers each.

- `exam`: the tuning half of an exam, each question with a passage on its gold span;
- `headings`: a heading and the passage under it, without the heading's own line (or the model would learn to match it);
- `links`: the words of a link and the beginning of the page (or section) that it leads to;
- `llm`: questions that a language model writes about a passage (`llm_pairs`).

The held-out half is not learnt: pairs with its questions, or with passages that answer them, are left out.

Training pairs from questions that a language model writes about passages (the support-chatbot study, appendix D).

- `questions`: a few questions that the passage answers; negatives are mined, as for every other pair.
- `triplets`: a question, and a passage that looks like an answer but is not, both written by the model. In the study,
  such negatives, taken near the positive, made the encoder worse, and questions made it better; try questions first.

Passages that answer held-out questions are not used. Answers are cached, so a stopped run repeats no call.

Pseudo-labels for training an encoder without judgments: the bundled cross-encoder says how much better a passage
answers a question than each negative does.

    margin(q, p, n) = z(q, p) - z(q, n)        z: logits

Questions that a language model wrote, mined negatives and these labels together are GPL (Wang, Thakur, Reimers and
Gurevych, Generative pseudo labeling, NAACL 2022), as the support-chatbot study uses it (appendix D).

Mines hard negatives: passages that our own retrievers rank high for the question, from other documents.

The support-chatbot study took negatives from the positive's own document, and its encoder got worse: a neighbouring
passage often answers the question, too. So a negative is always from another document and has a different text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from surefind.base.access import Access
from surefind.base.errors import SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.values import Calls
from surefind.base.protocols import OnProgress, Retriever, Services
from surefind.base.text.blocks import linked_path
from surefind.base.text.words import count_words
from surefind.base.types import Chunk, Document, Query
from surefind.engine.llm.ask import read_object
from surefind.engine.llm.chat import complete_many
from surefind.engine.rerank.cross_encoder import bundled_reader
from surefind.engine.store.backend import View
from surefind.lab.exam.families.headings import clean_heading
from surefind.lab.exam.model import ExamQuery
from surefind.lab.measure.ranks import ChunkSpans, Judge

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


Form = Literal["questions", "triplets"]
PER_PASSAGE = 3
_MIN_PASSAGE_CHARS = 120
"""Fewest characters of a passage that questions are written about."""
_MAX_PASSAGE_CHARS = 4_000
"""Most characters of a passage in the prompt."""
_ANSWER = 400
"""Most tokens of an answer."""
_SCHEMA = {
    "questions": {
        "type": "object",
        "properties": {"questions": {"type": "array", "items": {"type": "string"}}},
        "required": ["questions"],
        "additionalProperties": False,
    },
    "triplets": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "negative": {"type": "string"}},
        "required": ["query", "negative"],
        "additionalProperties": False,
    },
}


def passages_to_ask(shelf: PassageSet, most: int, form: Form) -> list[int]:
    """The ordinals of as many passages as `most` pairs need, in a random order that is the same each time."""
    free = [o for o, chunk in enumerate(shelf.chunks) if len(chunk.text) >= _MIN_PASSAGE_CHARS and shelf.free("", o)]
    lots = {o: hashlib.blake2b(shelf.chunks[o].id.encode(), digest_size=8).digest() for o in free}
    each = PER_PASSAGE if form == "questions" else 1
    return sorted(free, key=lambda o: lots[o])[: -(-most // each)]


def calls_for(shelf: PassageSet, ordinals: Sequence[int], model: str) -> Calls:
    """Estimates the calls for these passages."""
    tokens = sum(min(len(shelf.chunks[o].text), _MAX_PASSAGE_CHARS) // 4 + 250 for o in ordinals)
    return Calls(model, len(ordinals), tokens, 100 * len(ordinals))


def from_llm(
    shelf: PassageSet, ordinals: Sequence[int], services: Services, model: str, form: Form, report: OnProgress
) -> list[Pair]:
    """Has the model write pairs. Answers that cannot be read, or that copy their passage, are skipped."""
    prompt = services.prompt(f"train_{form}", "v1", ("passage", "count") if form == "questions" else ("passage",))
    given = {"count": PER_PASSAGE} if form == "questions" else {}
    prompts = [prompt.messages(passage=_data(shelf, o), **given) for o in ordinals]
    answers = complete_many(
        services.chat(model), prompts, schema=_SCHEMA[form], max_tokens=_ANSWER,
        progress=lambda done, total: report("Asking for questions", done, total),
    )  # fmt: skip
    made: list[Pair] = []
    for ordinal, answer in zip(ordinals, answers, strict=True):
        if isinstance(answer, SurefindError):
            continue
        made += _pairs(shelf, ordinal, read_object(answer.text) or {}, form)
    if ordinals and not made:
        first = next((str(a) for a in answers if isinstance(a, SurefindError)), "none of its answers could be read")
        raise SurefindError(f"The language model wrote no usable question: {first}. Try another model.")
    return made


def _data(shelf: PassageSet, ordinal: int) -> Data:
    return Data("passage", shelf.chunks[ordinal].searchable[:_MAX_PASSAGE_CHARS])


def _pairs(shelf: PassageSet, ordinal: int, reply: dict[str, object], form: Form) -> list[Pair]:
    chunk = shelf.chunks[ordinal]
    if form == "triplets":
        texts, negative = [reply.get("query")], reply.get("negative")
        if not isinstance(negative, str) or count_words(negative) < 5 or negative in chunk.text:
            return []
    else:
        listed = reply.get("questions")
        texts, negative = listed[:PER_PASSAGE] if isinstance(listed, list) else [], ""
    questions = [" ".join(text.split()) for text in texts if isinstance(text, str)]
    return [
        Pair(text, chunk.context, chunk.text, chunk.document, "llm", str(negative))
        for text in questions
        if 2 < count_words(text) < 60 and text not in chunk.text and shelf.free(text, ordinal)
    ]


_TOKENS = 256
"""Tokens of a question and a passage that are read."""


def margins_of(
    pairs: Sequence[Pair], negatives: Sequence[Sequence[int]], chunks: Sequence[Chunk], report: OnProgress
) -> list[tuple[float, ...]]:
    """The margins of each pair over its negatives, which are places in `chunks`."""
    reader = bundled_reader(_TOKENS)
    margins = []
    for at, (pair, others) in enumerate(zip(pairs, negatives, strict=True)):
        report("Labelling", at, len(pairs))
        passage = Chunk(pair.document, 0, len(pair.text), pair.text, context=pair.title)
        written = [Chunk("", 0, len(pair.negative), pair.negative)] if pair.negative else []
        rivals = [*written, *(chunks[place] for place in others[len(written) :])]
        own, *rest = reader.score(pair.query, [passage, *rivals]).tolist()
        margins.append(tuple(own - other for other in rest))
    report("Labelling", len(pairs), len(pairs))
    return margins


_DEPTH = 40
_BATCH = 256


def mine(
    view: View,
    chunks: Sequence[Chunk],
    pairs: Sequence[Pair],
    retrievers: Sequence[Retriever],
    count: int,
    report: OnProgress,
) -> list[list[int]]:
    """The places in `chunks` of up to `count` hard negatives for each pair, taken from the retrievers in turn, best
    first. `chunks` are all chunks of the view, in its order."""
    queries, spans = [Query(pair.query) for pair in pairs], view.spans()
    candidates: list[list[list[int]]] = [[] for _ in pairs]
    for retriever in retrievers:
        for at in range(0, len(queries), _BATCH):
            report(f"Mining with {retriever.name}", at, len(queries))
            rankings = view.search(retriever, queries[at : at + _BATCH], _DEPTH, Access.owner())
            for i in range(len(rankings)):
                candidates[at + i].append(spans.at(rankings.row(i)[0]).tolist())
        report(f"Mining with {retriever.name}", len(queries), len(queries))
    return [_chosen(pair, lists, chunks, count) for pair, lists in zip(pairs, candidates, strict=True)]


def _chosen(pair: Pair, lists: Sequence[Sequence[int]], chunks: Sequence[Chunk], count: int) -> list[int]:
    chosen: dict[int, None] = {}
    texts = {pair.passage}
    for turn in range(max(map(len, lists), default=0)):
        for ranked in lists:
            if turn < len(ranked) and len(chosen) < count:
                chunk = chunks[ranked[turn]]
                if chunk.document != pair.document and chunk.searchable not in texts:
                    chosen[ranked[turn]] = None
                    texts.add(chunk.searchable)
    return list(chosen)


def filled(
    negatives: Sequence[Sequence[int]], pairs: Sequence[Pair], chunks: Sequence[Chunk], count: int
) -> list[list[int]]:
    """Fills up the negatives to `count` for every pair, at random from other documents, the same each time."""
    rng = np.random.default_rng(0)
    rows = []
    for pair, row in zip(pairs, negatives, strict=True):
        full = list(row)
        for ordinal in rng.permutation(len(chunks)).tolist() if len(full) < count else ():
            if len(full) < count and chunks[ordinal].document != pair.document and ordinal not in full:
                full.append(ordinal)
        rows.append(full)
    return rows
