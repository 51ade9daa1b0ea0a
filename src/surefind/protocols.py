"""What each kind of stage must do: one verb each, batches in and out.

A stage is *configuration*: a frozen dataclass with its spec as text form (`surefind.spec.Stage`), cheap to
make, safe to hash and compare. What it builds is *state*: an `Index` that is saved, checked and loaded.
`surefind.testing` holds a contract suite for each of these, for our tests and for plugin authors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeGuard, TypeVar, cast, runtime_checkable

from surefind.types import Chunk, Document, Extraction, FloatArray, IdArray, IntArray, Mask, Query, Rankings, Signal

if TYPE_CHECKING:
    from surefind.llm.quote import Calls, Workload
    from surefind.llm.values import Completion, Message
    from surefind.services import Services

Progress = Callable[[int, int], None]
"""Called with (done, total) while long work goes on."""
OnProgress = Callable[[str, int, int], None]
"""Called with (what, done, total) by work that has several parts."""


@runtime_checkable
class Reader(Protocol):
    """Turns a file into documents. Raises `SourceError` for a file that it cannot read."""

    suffixes: ClassVar[tuple[str, ...]]

    def read(self, path: Path, id: str) -> Iterable[Document]: ...


@runtime_checkable
class ReaderWithParts(Reader, Protocol):
    """A reader that needs packages which an extra installs."""

    needs: ClassVar[tuple[str, ...]]
    """The modules that it imports."""
    extra: ClassVar[str]


@runtime_checkable
class TextOnly(Protocol):
    """A chunker or enricher whose result follows from the document alone: it asks no service for anything, so that it
    can run in a process of its own, under limits."""

    text_only: ClassVar[bool]


@runtime_checkable
class Falling(Protocol):
    """A chunker that has another one do the work where a model fails: `base` is its spec."""

    @property
    def base(self) -> str: ...


@runtime_checkable
class Chunker(Protocol):
    """Cuts a document. `document.text[c.start:c.end] == c.text` for every chunk, on any text.

    Most need the text alone; one that looks at meaning asks `services` for an encoder or a chat model."""

    def chunk(self, document: Document, services: Services) -> list[Chunk]: ...


@runtime_checkable
class Enricher(Protocol):
    """Writes `context` beside the text of chunks; everything else stays as it was."""

    def enrich(self, document: Document, chunks: list[Chunk], services: Services) -> list[Chunk]: ...


@runtime_checkable
class Analyzer(Protocol):
    """Turns text into the terms that lexical retrieval counts: `terms` of each of `tokens`."""

    def tokens(self, text: str) -> list[str]: ...

    def terms(self, token: str) -> tuple[str, ...]: ...


@runtime_checkable
class Extractor(Protocol):
    """Finds the entities that texts name."""

    def extract(
        self, texts: Sequence[str], services: Services, progress: Progress | None = None
    ) -> list[Extraction]: ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors, one row each."""

    @property
    def dimension(self) -> int: ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever the vectors would: the cache key beside the text."""
        ...

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray: ...


@runtime_checkable
class QueryEmbedder(Embedder, Protocol):
    """An encoder that treats questions otherwise than passages; `embed` is for passages then."""

    @property
    def query_fingerprint(self) -> str:
        """As `fingerprint`, of questions."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> FloatArray: ...


@runtime_checkable
class ChatModel(Protocol):
    """Asks a language model. Raises a `SurefindError` for every way in which it can fail, inside the timeout."""

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 512,
        temperature: float = 0.0,
        logprobs: int = 0,
    ) -> Completion: ...


@runtime_checkable
class Concurrent(Protocol):
    """A language model that answers several calls at a time."""

    concurrency: int


@runtime_checkable
class Priced(Protocol):
    """A stage of any kind that asks a language model, and can say beforehand for how much."""

    def llm_calls(self, work: Workload) -> Calls:
        """What it will ask for at most: a chunker for all documents, a retriever, fuser or reranker for all queries."""
        ...


class Index(Protocol):
    """What a retriever built over a fixed list of chunks. Immutable; ids are places in that list."""

    def __len__(self) -> int:
        """How many chunks."""
        ...

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        """The best k chunks for each query among those allowed: the mask is applied *before* top-k."""
        ...

    def save(self, folder: Path) -> None: ...


@runtime_checkable
class ScoringIndex(Index, Protocol):
    """An index that can score chunks which a search did not return (`missing=score`)."""

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        """The score of given chunks, (queries, chunks); padding scores -inf. A score that goes by way of other chunks
        goes only by way of those allowed."""
        ...


@runtime_checkable
class VectorIndex(ScoringIndex, Protocol):
    """An index of points: what is near to what, without asking an encoder."""

    def near(self, ids: Sequence[int], k: int, allow: Mask) -> Rankings:
        """The chunks nearest to given chunks, each of which finds itself first if it is allowed."""
        ...

    def nearest(self, points: FloatArray, k: int, allow: Mask) -> Rankings: ...

    def similarity(self, points: FloatArray, ids: IdArray) -> FloatArray: ...

    def points(self, queries: Sequence[Query]) -> FloatArray:
        """The queries' own vectors."""
        ...


@runtime_checkable
class Retriever(Protocol):
    """Query -> Rankings, by way of an index."""

    name: ClassVar[str]
    signal: ClassVar[Signal]

    @property
    def index_spec(self) -> str:
        """The part of the spec that decides what is built; retrievers that differ only in parameters of
        search time (k1, b) share one index."""
        ...

    def build(
        self,
        chunks: Sequence[Chunk],
        services: Services,
        reuse: Reuse | None = None,
        progress: Progress | None = None,
    ) -> Index:
        """Build over `chunks`. With `reuse`, only new chunks cost work; the result is the same."""
        ...

    def load(self, folder: Path, services: Services) -> Index: ...


@runtime_checkable
class Wrapper(Retriever, Protocol):
    """A retriever around another, such as one that rewrites queries. It shares the other's index (`index_spec` is the
    other's) and puts a view around it."""

    @property
    def inner(self) -> Retriever | None:
        """The other one; None where it stands alone, as its parameters may say."""
        ...

    def wrap(self, index: Index, services: Services) -> Index: ...


@runtime_checkable
class Composite(Retriever, Protocol):
    """A retriever that uses the indexes of others. They are built, kept and loaded once, for whoever uses them; its own
    index is only what they do not have."""

    @property
    def uses(self) -> tuple[Retriever, ...]: ...

    def over(self, index: Index, used: Sequence[Index]) -> Index:
        """Its own index, with those of `uses` behind it, in their order."""
        ...


@dataclass(frozen=True, slots=True)
class Reuse:
    """An earlier index and, for each chunk of the new list, its place there (-1: not there).

    Kept chunks stand in the same order in both.
    """

    index: Index
    origin: IntArray


@runtime_checkable
class Fuser(Protocol):
    """Several rankings of the same queries -> one."""

    def fuse(self, rankings: Sequence[Rankings], k: int) -> Rankings: ...


@runtime_checkable
class QueryFuser(Protocol):
    """A fuser that looks at the queries too, such as one that predicts weights per query."""

    def fuse_for(
        self, queries: Sequence[Query], rankings: Sequence[Rankings], k: int, services: Services
    ) -> Rankings: ...


@runtime_checkable
class Completing(Protocol):
    """A fuser that can have each candidate scored by the retrievers that did not return it."""

    @property
    def missing(self) -> Literal["score"] | None: ...


@runtime_checkable
class Reranker(Protocol):
    """Reorders the head of a ranking by looking at the passages.

    An optional stage: an error raised here leaves the ranking before it, and the trace says so."""

    def rerank(
        self, queries: Sequence[Query], rankings: Rankings, passages: Passages, k: int, services: Services
    ) -> Rankings: ...


SKETCH = 1000
"""How many documents stand for a corpus in its sketch."""


@runtime_checkable
class Corpus(Protocol):
    """What a trained stage is told of the documents that it is used on."""

    layout: str

    @property
    def fingerprint(self) -> str: ...

    @property
    def sketch(self) -> tuple[int, ...]:
        """The `SKETCH` least hashes of the documents' ids and contents, ascending."""
        ...


@runtime_checkable
class TrainedFuser(Fuser, Protocol):
    """A fuser that was trained, and belongs where it was."""

    def check(self, retrievers: Sequence[Retriever], depth: int, corpus: Corpus, services: Services) -> None:
        """Raises `SpecError`, naming what changed, where it does not belong; notes what changed less."""
        ...


class Passages(Protocol):
    """Gives the chunks behind ids, fetching only what is asked for, and only what the caller may read."""

    def __getitem__(self, ids: Sequence[int]) -> list[Chunk]: ...


@runtime_checkable
class Reaching(Protocol):
    """Passages with the pipeline behind them, for rerankers that look further. It gives only what the caller may read.

    Rerankers get one inside a pipeline; one that gets plain `Passages` makes do with the ranking it has."""

    def __getitem__(self, ids: Sequence[int]) -> list[Chunk]: ...

    def near(self, ids: Sequence[int], k: int) -> list[list[int]]:
        """For each passage its k nearest others."""
        ...

    def search(self, queries: Sequence[Query], k: int) -> Rankings:
        """What the stages before the rerankers find for other queries."""
        ...


# ---------------------------------------------------------------- what a stage may declare beside its verb


@runtime_checkable
class Stamped(Protocol):
    """A stage whose spec only names what it depends on: the weights of a model, the words of a prompt."""

    def stamp(self, services: Services) -> str:
        """Changes whenever the result would, though the spec does not."""
        ...


@runtime_checkable
class Trained(Protocol):
    """A stage that learnt from questions, which therefore say nothing about it."""

    def learnt(self, services: Services) -> frozenset[str]:
        """The questions, as `question_key` writes them."""
        ...


@runtime_checkable
class Local(Protocol):
    """A reranker whose time is this machine's."""

    @property
    def runs_here(self) -> bool: ...

    @property
    def work(self) -> str:
        """Equal for rerankers that do the same work on the same passages."""
        ...


@runtime_checkable
class Reacher(Protocol):
    """A reranker that looks further than its ranking, so that its result depends on what stands behind it."""

    @property
    def reaches(self) -> bool: ...


@runtime_checkable
class Wrapping(Protocol):
    """A stage around another of its kind, such as a reranker that is asked now and then."""

    @property
    def inner(self) -> Any: ...


@runtime_checkable
class Extracting(Protocol):
    """A retriever whose index is built from the entities that passages name."""

    @property
    def extract(self) -> str:
        """The spec of the extractor."""
        ...


@runtime_checkable
class Named(Protocol):
    """A stage with a name, as every one of ours has."""

    name: ClassVar[str]


Kind = TypeVar("Kind")
_KEPT: dict[tuple[type, object], bool] = {}


def keeps(thing: object, protocol: Callable[..., Kind]) -> TypeGuard[Kind]:
    """As `isinstance` of a protocol, asked once for each class: Python takes some 20 µs each time."""
    key = (type(thing), protocol)
    if key not in _KEPT:
        _KEPT[key] = isinstance(thing, cast(type, protocol))
    return _KEPT[key]


def runs_here(stage: object) -> bool:
    return keeps(stage, Local) and stage.runs_here


def reaches(stage: object) -> bool:
    return keeps(stage, Reacher) and stage.reaches


def stamp_of(stage: object, services: Services) -> str:
    """What a stage's spec only names, or nothing."""
    return stage.stamp(services) if keeps(stage, Stamped) else ""


def learnt_by(stage: object, services: Services) -> frozenset[str]:
    return stage.learnt(services) if keeps(stage, Trained) else frozenset()


def name_of(stage: object) -> str:
    """What reports call a stage."""
    return stage.name if keeps(stage, Named) else type(stage).__name__
