"""Answers a question: searches, asks a model or quotes, and says so if nothing here answers it.

    for step in steps(kb, "When is the wire cutoff?", Access.public()):
        ...                                          the search, then each sentence, then the whole answer

The model sees the passages of the search alone, which are those that the caller may read. If the pipeline searches by
communities (`graph_global`), it sees their summaries instead: a broad question is answered from whole parts of the
graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace

from surefind.base.abilities import declared
from surefind.base.access import Access
from surefind.base.errors import MissingPartError, SurefindError, UsageError
from surefind.base.running import all_cores
from surefind.base.types import SearchResult, Turn
from surefind.engine.search.history import checked
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.search.quoting import answering
from surefind.kb import KnowledgeBase
from surefind.kb.answer.values import UNSURE, Answer, AnswerStep, Cited, numbered, refuses
from surefind.kb.answer.written import EXTENT, PASSAGES, asks_globally, rewrite, told, write

_GLOBAL_PASSAGES = 20
"""Passages whose communities an answer is made from, if it is made from communities."""


def answer(
    kb: KnowledgeBase,
    query: str,
    access: Access,
    *,
    pipeline: str | Pipeline | None = None,
    model: str | None = None,
    quote: bool = False,
    min_confidence: float | None = None,
    history: Sequence[Turn] = (),
) -> Answer:
    """Returns the answer to a question. With `quote`, or without a language model in the settings, its sentences are
    quotes. `history` are the questions before, on which this one may lean."""
    *_, last = steps(
        kb, query, access, pipeline=pipeline, model=model, quote=quote, min_confidence=min_confidence, history=history
    )
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
    history: Sequence[Turn] = (),
) -> Iterator[AnswerStep]:
    """Yields the answer as it comes: the search, each sentence, the whole."""
    by_quotes = quote or not kb.services.chat_name(model)
    least = kb.settings.min_confidence if min_confidence is None else min_confidence
    searched = kb.pipeline(pipeline)
    globally = bool(asks_globally(searched)) and not by_quotes
    here = all(declared(stage).runs_here for stage in (*searched.retrieve, *searched.rerank))
    rewritten = "" if by_quotes else rewrite(kb.services, model, query, checked(history))
    with all_cores() if here else nullcontext():
        result = kb.search(
            rewritten or query, access, _GLOBAL_PASSAGES if globally else PASSAGES, searched,
            min_confidence=least, confidence="read", history=() if rewritten else history,
        )  # fmt: skip
    if rewritten:
        result = replace(result, query=query, searched=rewritten)
    yield AnswerStep("search", _cut(result))
    refused = refuses(result) and not (globally and result.hits)
    made = Answer(query, (), result) if refused or globally else _quoted(result)
    for sentence in made.sentences:
        yield AnswerStep("sentence", sentence)
    if not by_quotes and not refused:
        shown = len(made.sentences)
        made = _written(kb, made, model, searched, access)
        for sentence in made.sentences[shown:]:
            yield AnswerStep("sentence", sentence)
    yield AnswerStep("end", made)


def _cut(result: SearchResult) -> SearchResult:
    """A result whose texts are not longer than an answer needs."""
    return replace(result, hits=tuple(map(EXTENT.cut, result.hits)))


def _quoted(result: SearchResult) -> Answer:
    """Quotes what answers; if the search is not sure, what each of the first passages says."""
    unsure = result.sure in UNSURE
    shown = result.quotes if unsure else answering(result.quotes)
    sentences, cited = numbered(
        (Cited(quote.text, (), quote.mark, quote.span), [EXTENT.cut(result.hits[quote.rank - 1])]) for quote in shown
    )
    return Answer(result.query, sentences, result, cited)


def _written(kb: KnowledgeBase, quoted: Answer, model: str | None, pipeline: Pipeline, access: Access) -> Answer:
    """Has a model write after the quotes. If it searched by communities, there are none, and it writes alone."""
    result = quoted.result
    globally = asks_globally(pipeline)
    try:
        communities = told(kb, result, globally, access) if globally else ()
        written = write(_cut(result), kb.services, model, communities)
    except (UsageError, MissingPartError):  # a wrong model string, a missing key or package: not a matter of luck
        raise
    except SurefindError as error:
        return replace(quoted if quoted.sentences else _quoted(result), note=f"The model did not answer: {error}")
    kept = [(sentence, [quoted.cited[number - 1] for number in sentence.citations]) for sentence in quoted.sentences]
    said, cited = numbered([*kept, *written.said])
    made = replace(quoted, sentences=said, cited=cited, model=written.model)
    if not written.said:
        note = "The model wrote nothing that these passages say."
        made = replace(quoted if quoted.sentences else _quoted(result), note=note)
    return replace(made, dropped=written.dropped, dollars=written.dollars, invented=written.invented)
