"""What some stages and indexes can do besides their verb.

A stage declares what is true of it by attributes (`surefind.base.spec.Stage`), and `declared` reads them. What only
some analyzers, indexes and passages can do is a protocol here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Protocol,
    TypeGuard,
    TypeVar,
    cast,
    runtime_checkable,
)

from surefind.base.prompts.values import Calls, Workload
from surefind.base.protocols import (
    Analyzer,
    Embedder,
    Index,
    Passages,
    QueryEmbedder,
    Retriever,
    ScoringIndex,
    Services,
)
from surefind.base.spec import Stage

if TYPE_CHECKING:
    from surefind.base.types import BoolArray, FloatArray, IntArray, Mask, Query, Rankings, Wording


@runtime_checkable
class QueryAnalyzer(Analyzer, Protocol):
    """An analyzer that treats queries differently from documents."""

    @property
    def index_form(self) -> str:
        """The part of the spec that decides what is indexed: analyzers with the same form share an index."""
        ...

    def query_tokens(self, text: str) -> list[str]:
        """Splits a query into the tokens to search for."""
        ...


@runtime_checkable
class StatisticalIndex(ScoringIndex, Protocol):
    """An index whose scores depend on statistics over all chunks, such as how many contain a word."""

    def only(self, kept: BoolArray, retriever: Any) -> ScoringIndex:
        """Returns the index that `retriever` would build of the kept chunks alone, numbered from 0."""
        ...


@dataclass(frozen=True, eq=False)
class Part:
    """A part of an index: an index of some of the chunks, in the same order as in the whole."""

    index: Index
    places: IntArray
    """The place of each of its chunks in the whole; -1 if the chunk is gone."""


@runtime_checkable
class Growing(Retriever, Protocol):
    """A retriever whose index may consist of parts, so that new chunks and deletions need no new index."""

    def join(self, parts: Sequence[Part], services: Services, folder: Path | None = None) -> Index:
        """Returns one index over the parts. It answers as an index built from nothing; an approximate one may find
        other chunks, with the same scores. Its `save` writes only what it computed about the whole; `folder` is where
        this was saved, if it was."""
        ...


@runtime_checkable
class WarmIndex(Protocol):
    """An index that loads something when it is first searched."""

    def warm(self) -> None:
        """Loads it now, so that no query waits for it."""
        ...


@runtime_checkable
class WordedIndex(Index, Protocol):
    """An index that knows how well it knows the words of a query."""

    def wording(self, retriever: Any, queries: Sequence[Query], allow: Mask) -> list[Wording]:
        """Returns what is known about the words of each query. A word that no allowed chunk has counts as unknown."""
        ...


@runtime_checkable
class Sourced(Passages, Protocol):
    """Passages that know where the ranking comes from. A pipeline hands them to every reranker."""

    @property
    def path(self) -> str:
        """The stages before the rerankers, in the text form of a pipeline."""
        ...

    @property
    def corpus(self) -> str:
        """The fingerprint of the documents."""
        ...

    def retrieved(self, queries: Sequence[Query]) -> list[Rankings]:
        """Returns the rankings of each retriever."""
        ...


Kind = TypeVar("Kind")
_HAS_ABILITY: dict[tuple[type, object], bool] = {}


def implements(thing: object, protocol: Callable[..., Kind]) -> TypeGuard[Kind]:
    """Does what `isinstance` does for a protocol, but computes it once per class: Python takes some 20 µs each time."""
    key = (type(thing), protocol)
    if key not in _HAS_ABILITY:
        _HAS_ABILITY[key] = isinstance(thing, cast(type, protocol))
    return _HAS_ABILITY[key]


_NOTHING = Stage()


def declared(stage: object) -> Stage:
    """Returns a stage with all that it may declare. Anything else, such as a fuser that is None, declares nothing."""
    return stage if isinstance(stage, Stage) else _NOTHING


def paid_calls(stage: object, work: Workload) -> list[Calls]:
    """Estimates the most LLM calls that a stage makes, with those of the stages that it wraps or uses; empty if it asks
    no language model. A stage that wraps another runs it several times for one query, with longer queries, and so on
    inwards."""
    stage_abilities = declared(stage)
    own = stage_abilities.llm_calls(work)
    if own and work.query_tokens:
        own = replace(own, tokens_in=own.tokens_in + own.calls * work.query_tokens)
    longer = work.query_tokens + stage_abilities.added_tokens
    more = replace(work, queries=work.queries * stage_abilities.searches, query_tokens=longer)
    parts = [part for part in (stage_abilities.inner, *stage_abilities.uses) if part is not None]
    inside = [calls for part in parts for calls in paid_calls(part, more)]
    return [own, *inside] if own and own.calls else inside


def asks_llm(stages: Iterable[object]) -> bool:
    """Returns whether one of the stages asks a language model with its parameters: a graph retriever may, and by
    default does not."""
    return any(paid_calls(stage, Workload(1, 1, 1, 1, 1)) for stage in stages)


def name_of(stage: object) -> str:
    """Returns the name of a stage in reports."""
    return str(getattr(stage, "name", type(stage).__name__))


def embed_queries(encoder: Embedder, texts: Sequence[str]) -> FloatArray:
    """Encodes questions, with `embed_queries` if the encoder has it, else with `embed`."""
    return encoder.embed_queries(texts) if implements(encoder, QueryEmbedder) else encoder.embed(texts)


def query_fingerprint(encoder: Embedder) -> str:
    """Returns the fingerprint that applies to the vectors of questions."""
    return encoder.query_fingerprint if implements(encoder, QueryEmbedder) else encoder.fingerprint


def query_tokens(analyzer: Analyzer, text: str) -> list[str]:
    return analyzer.query_tokens(text) if implements(analyzer, QueryAnalyzer) else analyzer.tokens(text)


def index_form(analyzer: Analyzer) -> str:
    """The part of an analyzer's spec that decides what is indexed."""
    return analyzer.index_form if implements(analyzer, QueryAnalyzer) else str(analyzer)
