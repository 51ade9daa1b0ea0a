"""Answers by a language model: it reads the passages of the search, or summaries of the communities that were found.
Each of its sentences is checked.

Checks that passages say a sentence: its numbers and names occur in them, and most of its words.

    share(s) = |terms of s that the passages have| / |terms of s|        at least `MIN_SUPPORT`

The check reads words, not meaning: it finds what was made up or taken from elsewhere. It does not find a "not" that was
lost.

What a search by communities tells: the summary of each community that was found, and the hits that belong to it.

Global search of the agentic-knowledge-base study after GraphRAG (Edge et al. 2024): a broad question is answered from
summaries of whole parts of the graph, and not from single passages. The communities are those of the graph of the
passages that the caller may read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from surefind.base.access import Access
from surefind.base.errors import AnswerError, SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.values import Calls, Completion
from surefind.base.protocols import Services
from surefind.base.types import PAD, Chunk, Hit, SearchResult, Turn
from surefind.engine.analyze.english import English
from surefind.engine.llm.ask import ask, read_object
from surefind.engine.rerank.cross_encoder import bundled_reader
from surefind.engine.retrieve.graph_global import GraphGlobal
from surefind.engine.search.history import leans
from surefind.engine.search.hits import Extent
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.store.backends.view import LocalView
from surefind.kb import KnowledgeBase
from surefind.kb.answer.values import Cited

MIN_SUPPORT = 0.6
_ANALYZER = English()
_EXACT = re.compile(r"\d")
"""A term with a digit is an amount, a date or an identifier: it must occur as it is."""


def supported(sentence: str, passages: Sequence[Hit], summaries: Sequence[str] = ()) -> bool:
    """Whether these passages, with their titles and headings, and what sums them up, say a sentence."""
    wanted = _terms(sentence)
    if not wanted or not passages:
        return False
    known = set().union(*map(_terms, summaries))
    for hit in passages:
        known |= _terms(" ".join((hit.text, hit.title, *hit.headings)))
    exact = {term for term in wanted if _EXACT.search(term)}
    return exact <= known and len(wanted & known) >= MIN_SUPPORT * len(wanted)


def _terms(text: str) -> set[str]:
    return {term for token in _ANALYZER.content_tokens(text) for term in _ANALYZER.terms(token)}


@dataclass(frozen=True)
class CommunityTold:
    """The summary of a community, and the hits that belong to it."""

    summary: str
    hits: tuple[Hit, ...]


def asks_globally(pipeline: Pipeline) -> GraphGlobal | None:
    """The retriever of a pipeline that searches by communities alone."""
    only = pipeline.retrieve[0]
    return only if len(pipeline.retrieve) == 1 and isinstance(only, GraphGlobal) else None


def told(kb: KnowledgeBase, result: SearchResult, retriever: GraphGlobal, access: Access) -> list[CommunityTold]:
    """The communities of the hits, in the order of their best hits; empty if the graph is not on this machine."""
    view = kb.reader().view
    if not isinstance(view, LocalView):
        return []
    places = view.spans().at([int(hit.id, 16) for hit in result.hits]).tolist()
    there = [(place, hit) for place, hit in zip(places, result.hits, strict=True) if place != PAD]
    summaries = retriever.summaries_of(view.index(retriever), [place for place, _ in there], view.mask(access))
    by_summary: dict[str, list[Hit]] = {}
    for summary, (_, hit) in zip(summaries, there, strict=True):
        if summary:
            by_summary.setdefault(summary, []).append(hit)
    return [CommunityTold(summary, tuple(hits)) for summary, hits in by_summary.items()]


_SLOTS = ("passages", "query")
_MAX_TOKENS = 500
_CHARACTERS = 3
"""Characters of a token, at least, as a cost is quoted."""
_READ_TOKENS = 256
PASSAGES = 5
"""Passages that an answer is made from."""
EXTENT = Extent(None, 2_000)
"""What a model reads of each passage, and an answer shows of it."""
_PROMPT, _GLOBAL, _FOLLOW_UP = "v1", "global", "follow_up"
_TURNS, _TURN_CHARACTERS = 3, 1_000
"""Questions before that a model reads, and characters of each."""
_REWRITTEN_TOKENS = 100


@dataclass(frozen=True)
class WrittenAnswer:
    """What the model wrote, sentence by sentence."""

    said: tuple[tuple[Cited, Sequence[Hit]], ...]
    """Each sentence that its passages say, with the hits that it cites."""
    dropped: tuple[str, ...]
    model: str
    dollars: float
    invented: int
    """Citations of passages that it was not shown. They are left out."""


def write(
    result: SearchResult, services: Services, model: str | None = None, communities: Sequence[CommunityTold] = ()
) -> WrittenAnswer:
    """Asks the model. With `communities`, it reads their summaries instead of the passages, and cites the passages of
    those that it names. Raises a `SurefindError` if it does not answer, or not as it was asked to."""
    template = services.prompt("ask", _GLOBAL if communities else _PROMPT, _SLOTS)
    read = [(community.summary, community.hits) for community in communities] or [
        (_shown(hit), (hit,)) for hit in result.hits
    ]
    shown = [Data("passage", text, number) for number, (text, _) in enumerate(read, 1)]
    prompt = template.messages(passages=shown, query=Data("query", result.query))
    (answer,) = ask(
        services,
        model,
        [prompt],
        max_tokens=_MAX_TOKENS,
        usable=lambda at, answer_text: _sentences(answer_text) is not None,
    )
    if isinstance(answer, SurefindError):
        raise answer
    sentences = _sentences(answer)
    if sentences is None:
        raise AnswerError("The model's answer had no list of sentences.")
    kept, dropped, invented = [], [], 0
    for text, numbers in sentences:
        invented += sum(not 1 <= number <= len(read) for number in numbers)
        named = [read[number - 1] for number in numbers if 1 <= number <= len(read)]
        cited = [hit for _, hits in named for hit in hits]
        if supported(text, cited, [summary for summary, _ in named] if communities else ()):
            kept.append((Cited(text, ()), cited))
        else:
            dropped.append(text)
    name = answer.model or services.chat_name(model)
    return WrittenAnswer(tuple(kept), tuple(dropped), name, answer.dollars, invented)


def rewrite(services: Services, model: str | None, query: str, history: Sequence[Turn]) -> str:
    """Returns a question that leans on the one before as one that stands alone, as the model writes it; empty if it
    stands alone already, or the model does not answer."""
    if not history or not leans(query):
        return ""
    before = "\n".join(turn.query[:_TURN_CHARACTERS] for turn in history[-_TURNS:])
    template = services.prompt("ask", _FOLLOW_UP, ("history", "query"))
    prompt = template.messages(history=Data("history", before), query=Data("query", query))
    (answer,) = ask(services, model, [prompt], max_tokens=_REWRITTEN_TOKENS, usable=lambda at, text: bool(_line(text)))
    return "" if isinstance(answer, SurefindError) else _line(answer)


def _line(answer: Completion) -> str:
    """The question that a model wrote; empty if it wrote none."""
    said = (read_object(answer.text) or {}).get("question")
    return " ".join(said.split())[:_TURN_CHARACTERS] if isinstance(said, str) else ""


def calls_of(services: Services, model: str | None, questions: int) -> Calls:
    """Returns the most that written answers to so many questions cost."""
    tokens = PASSAGES * (EXTENT.max_chars or 0) // _CHARACTERS
    return Calls(services.chat_name(model), questions, questions * tokens, questions * _MAX_TOKENS)


def reads(sentence: str, passages: Sequence[Hit]) -> bool:
    """Whether the bundled reader says that one of these passages says a sentence."""
    chunks = [Chunk("", 0, 0, hit.text, (hit.title, *hit.headings)) for hit in passages]
    return bool(chunks) and float(bundled_reader(_READ_TOKENS).score(sentence, chunks).max()) > 0


def _shown(hit: Hit) -> str:
    heading = " > ".join(dict.fromkeys((hit.title, *hit.headings)))
    return f"{heading}\n{hit.text}"


def _sentences(answer: Completion) -> list[tuple[str, list[int]]] | None:
    """Returns (text, numbers of passages) of each sentence; None if the answer has no such list."""
    rows = (read_object(answer.text) or {}).get("sentences")
    if not isinstance(rows, list):
        return None
    return [sentence for row in rows if (sentence := _sentence(row)) is not None]


def _sentence(row: Any) -> tuple[str, list[int]] | None:
    if not isinstance(row, dict):
        return None
    text, numbers = row.get("text"), row.get("passages")
    if not isinstance(text, str) or not text.strip() or not isinstance(numbers, list):
        return None
    return " ".join(text.split()), [number for number in numbers if type(number) is int]
