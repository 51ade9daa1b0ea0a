"""The properties that a stage may declare besides its verb, one protocol each.

Surefind treats a stage by what it declares: a `Local` reranker is timed on this machine, and the cache key of a
`Stamped` stage contains more than its spec. `surefind.testing.check_declared` checks that the declarations are true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeGuard,
    TypeVar,
    cast,
    runtime_checkable,
)

from surefind.prompts.values import Calls, Workload
from surefind.protocols import (
    Analyzer,
    Composite,
    Embedder,
    Index,
    Passages,
    Priced,
    QueryEmbedder,
    Reader,
    Retriever,
    ScoringIndex,
    Services,
)

if TYPE_CHECKING:
    from surefind.types import BoolArray, FloatArray, IntArray, Mask, Query, Rankings, Signal, Wording


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
class NeedsExtra(Reader, Protocol):
    """A reader that needs packages which an extra installs."""

    needs: ClassVar[tuple[str, ...]]
    """The modules that the reader imports."""
    extra: ClassVar[str]
    """The name of the extra: `pip install 'surefind[EXTRA]'`."""


@runtime_checkable
class ChecksAccess(Reader, Protocol):
    """A reader that looks for access lists in the file itself. The texts of other readers are checked after it."""

    checks_access: ClassVar[bool]


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
class ChecksBlocks(Protocol):
    """A retriever whose index checks the blocks of large files when it uses them (`surefind.blocks`)."""

    blockwise: ClassVar[tuple[str, ...]]
    """The names of these files."""


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
class TextOnly(Protocol):
    """A chunker or enricher that needs nothing but the document. It uses no service, so it can run in a child process,
    under limits."""

    text_only: ClassVar[bool]


@runtime_checkable
class HasFallback(Protocol):
    """A chunker that falls back to another one if its model fails."""

    @property
    def base(self) -> str:
        """The spec of the chunker it falls back to."""
        ...


@runtime_checkable
class Concurrent(Protocol):
    """A language model that answers several calls at a time."""

    concurrency: int
    """The number of calls it answers at a time."""


@runtime_checkable
class ScoresMissing(Protocol):
    """A fuser that can require a score from every retriever for every candidate, including those it did not return."""

    @property
    def missing(self) -> Literal["score"] | None:
        """`score` if missing scores are to be computed, else None."""
        ...


@runtime_checkable
class Synonym(Protocol):
    """A fuser that is another fuser under another name, such as `rsf` of two retrievers, which is `convex`."""

    def same_as(self, signals: Sequence[Signal]) -> str | None:
        """Returns the spec of the fuser that ranks in the same way, for rankings with these signals; None if there is
        none."""
        ...


@runtime_checkable
class Stamped(Protocol):
    """A stage whose result depends on more than its spec, such as the weights of a model or the words of a prompt."""

    def stamp(self, services: Services) -> str:
        """Returns a string that changes whenever the result would although the spec does not."""
        ...


@runtime_checkable
class Trained(Protocol):
    """A stage that was trained on questions. A benchmark must not measure it on those questions."""

    def learnt(self, services: Services) -> frozenset[str]:
        """Returns the questions it was trained on, as `question_key` writes them."""
        ...


@runtime_checkable
class Local(Protocol):
    """A reranker that may run on this machine, so that its latency can be measured."""

    @property
    def runs_here(self) -> bool:
        """Whether it runs on this machine."""
        ...

    @property
    def work(self) -> str:
        """A key that is equal for rerankers that do the same work on the same passages."""
        ...


@runtime_checkable
class Reacher(Protocol):
    """A reranker that looks beyond its ranking, so that its result also depends on the retrievers before it."""

    @property
    def reaches(self) -> bool:
        """Whether it looks beyond its ranking."""
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


@runtime_checkable
class Remote(Protocol):
    """A stage that asks a server."""

    @property
    def server(self) -> tuple[str, str]:
        """The address of the server, and the environment variable that holds its key; "" for none."""
        ...


@runtime_checkable
class Wrapping(Protocol):
    """A stage around another of its kind, such as `conditional`, which runs a reranker only for some queries. If it
    runs the inner stage more than once for a query, its attribute `searches` says how often."""

    @property
    def inner(self) -> Any:
        """The wrapped stage; None if the parameters are such that it wraps none."""
        ...


@runtime_checkable
class Extracting(Protocol):
    """A retriever whose index is built from the entities that passages mention."""

    @property
    def extract(self) -> str:
        """The spec of the extractor."""
        ...


@runtime_checkable
class Named(Protocol):
    """A stage with a name. All built-in stages have one."""

    name: ClassVar[str]


Kind = TypeVar("Kind")
_KEPT: dict[tuple[type, object], bool] = {}


def implements(thing: object, protocol: Callable[..., Kind]) -> TypeGuard[Kind]:
    """Does what `isinstance` does for a protocol, but computes it once per class: Python takes some 20 µs each time."""
    key = (type(thing), protocol)
    if key not in _KEPT:
        _KEPT[key] = isinstance(thing, cast(type, protocol))
    return _KEPT[key]


def runs_here(stage: object) -> bool:
    """Returns whether a stage is a reranker that runs on this machine."""
    return implements(stage, Local) and stage.runs_here


def reaches(stage: object) -> bool:
    """Returns whether a stage is a reranker that looks beyond its ranking."""
    return implements(stage, Reacher) and stage.reaches


def paid_calls(stage: object, work: Workload) -> list[Calls]:
    """Estimates the most LLM calls that a stage makes, with those of the stages that it wraps or uses; empty if it asks
    no language model."""
    own = stage.llm_calls(work) if implements(stage, Priced) else None
    inside = [stage.inner] if implements(stage, Wrapping) else []
    inside += stage.uses if implements(stage, Composite) else ()
    more = replace(work, queries=work.queries * getattr(stage, "searches", 1))
    return [*([own] if own and own.calls else []), *(calls for one in inside for calls in paid_calls(one, more))]


def asks_llm(stages: Iterable[object]) -> bool:
    """Returns whether one of the stages asks a language model with its parameters: a graph retriever may, and by
    default does not."""
    return any(paid_calls(stage, Workload(1, 1, 1, 1, 1)) for stage in stages)


def stamp_of(stage: object, services: Services) -> str:
    """Returns the stamp of a stage, or "" if it has none."""
    return stage.stamp(services) if implements(stage, Stamped) else ""


def learnt_by(stage: object, services: Services) -> frozenset[str]:
    """Returns the questions that a stage was trained on; none if it was not trained."""
    return stage.learnt(services) if implements(stage, Trained) else frozenset()


def name_of(stage: object) -> str:
    """Returns the name of a stage in reports."""
    return stage.name if implements(stage, Named) else type(stage).__name__


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
