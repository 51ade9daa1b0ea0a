"""Answers a question: searches, asks a model or quotes, and says so if nothing here answers it.

    for step in steps(kb, "When is the wire cutoff?", Access.public()):
        ...                                          the search, then each sentence, then the whole answer

The model sees the passages of the search alone, which are those that the caller may read. If the pipeline searches by
communities (`graph_global`), it sees their summaries instead: a broad question is answered from whole parts of the
graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

from surefind.base.abilities import declared
from surefind.base.access import Access
from surefind.base.errors import MissingPartError, SurefindError, UsageError
from surefind.base.running import all_cores
from surefind.base.types import SearchResult
from surefind.engine.search.hits import Extent
from surefind.engine.search.pipeline import Pipeline
from surefind.kb import KnowledgeBase
from surefind.kb.answer.quoting import quote as quote_from
from surefind.kb.answer.values import Answer, AnswerStep, Cited
from surefind.kb.answer.written import asks_globally, told, write

PASSAGES = 5
"""Passages that an answer is made from."""
_GLOBAL_PASSAGES = 20
"""Passages whose communities an answer is made from, if it is made from communities."""
MIN_PROBABILITY = 0.15
"""The probability below which nothing is quoted, whatever the settings say (docs/results/answers.md)."""
_EXTENT = Extent(None, 2_000)
"""What the model reads of each passage."""


def answer(
    kb: KnowledgeBase,
    query: str,
    access: Access,
    *,
    pipeline: str | Pipeline | None = None,
    model: str | None = None,
    quote: bool = False,
    min_confidence: float | None = None,
) -> Answer:
    """Returns the answer to a question. With `quote`, or without a language model in the settings, its sentences are
    quotes."""
    *_, last = steps(kb, query, access, pipeline=pipeline, model=model, quote=quote, min_confidence=min_confidence)
    assert isinstance(last.value, Answer)
    return last.value


def steps(
    kb: KnowledgeBase,
    query: str,
    access: Access,
    *,
    pipeline: str | Pipeline | None = None,
    model: str | None = None,
    quote: bool = False,
    min_confidence: float | None = None,
) -> Iterator[AnswerStep]:
    """Yields the answer as it comes: the search, each sentence, the whole."""
    quotes = quote or not kb.services.chat_name(model)
    least = kb.settings.min_confidence if min_confidence is None else min_confidence
    searched = kb.pipeline(pipeline)
    passages = _GLOBAL_PASSAGES if asks_globally(searched) and not quotes else PASSAGES
    here = all(declared(stage).runs_here for stage in (*searched.retrieve, *searched.rerank))
    with all_cores() if here else nullcontext():
        result = kb.search(
            query, access, passages, searched, extent=_EXTENT, min_confidence=0 if quotes else least, confidence="read"
        )
    yield AnswerStep("search", result)
    made = _quoted(result, least) if quotes else _written(kb, result, model, least, searched, access)
    for sentence in made.sentences:
        yield AnswerStep("sentence", sentence)
    yield AnswerStep("end", made)


def _quoted(result: SearchResult, least: float, note: str = "") -> Answer:
    """Quotes the sentence that answers. Without a reader, it is the one that shares most with the question."""
    if not result.hits:
        return Answer(result.query, (), result, note=note, confidence=result.confidence, closest=result.closest)
    sure = result.confidence or 0.0
    try:
        quoted = quote_from(result.query, result.hits, sure)
        sentences, sure = quoted.sentences, quoted.confidence
    except MissingPartError:
        first = result.hits[0]
        start, end = first.sentence or (first.start, first.end)
        sentences = (Cited(" ".join(first.text[start - first.start : end - first.start].split()), (first.rank,)),)
    if sure < max(least, MIN_PROBABILITY):
        return Answer(result.query, (), result, note=note, confidence=sure, closest=result.hits[0])
    return Answer(result.query, sentences, result, note=note, confidence=sure)


def _written(
    kb: KnowledgeBase, result: SearchResult, model: str | None, least: float, pipeline: Pipeline, access: Access
) -> Answer:
    if not result.hits:
        return Answer(result.query, (), result, confidence=result.confidence, closest=result.closest)
    globally = asks_globally(pipeline)
    try:
        communities = told(kb, result, globally, access) if globally else ()
        written = write(result, kb.services, model, communities)
    except (UsageError, MissingPartError):  # a wrong model string, a missing key or package: not a matter of luck
        raise
    except SurefindError as error:
        return _quoted(result, least, f"The model did not answer: {error}")
    return Answer(
        result.query, written.sentences, result, written.model, written.dropped, "", written.dollars, result.confidence
    )
