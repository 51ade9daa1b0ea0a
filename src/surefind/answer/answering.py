"""Answers a question: searches, asks a model or quotes, and says so if nothing here answers it.

    for step in steps(kb, "When is the wire cutoff?", Access.public()):
        ...                                          the search, then each sentence, then the whole answer

The model sees the passages of the search alone, which are those that the caller may read.
"""

from __future__ import annotations

from collections.abc import Iterator

from surefind.access import Access
from surefind.answer.quoting import quotes
from surefind.answer.values import Answer, Step
from surefind.answer.written import write
from surefind.errors import MissingPartError, SurefindError, UsageError
from surefind.kb import KnowledgeBase
from surefind.search.extent import Extent
from surefind.search.pipeline import Pipeline
from surefind.types import SearchResult

PASSAGES = 5
"""Passages that an answer is made from."""
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
) -> Iterator[Step]:
    """Yields the answer as it comes: the search, each sentence, the whole."""
    result = kb.search(query, access, PASSAGES, pipeline, extent=_EXTENT, min_confidence=min_confidence)
    yield Step("search", result)
    made = _made(kb, result, model, quote)
    for one in made.sentences:
        yield Step("sentence", one)
    yield Step("end", made)


def _made(kb: KnowledgeBase, result: SearchResult, model: str | None, quote: bool) -> Answer:
    if not result.hits:
        return Answer(result.query, (), result)
    if quote or not kb.services.chat_name(model):
        return Answer(result.query, tuple(quotes(result)), result)
    try:
        found = write(result, kb.services, model)
    except (UsageError, MissingPartError):  # a wrong model string, a missing key or package: not a matter of luck
        raise
    except SurefindError as error:
        return Answer(result.query, tuple(quotes(result)), result, note=f"The model did not answer: {error}")
    return Answer(result.query, found.sentences, result, found.model, found.dropped, "", found.dollars)
