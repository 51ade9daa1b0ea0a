"""What each kind of stage must do: one verb each, batches in and out.

A stage is *configuration*: a frozen dataclass with its spec as text form (`surefind.spec.Stage`), cheap to
make, safe to hash and compare. What it builds is *state*: an `Index` that is saved, checked and loaded.
`surefind.testing` holds a contract suite for each of these, for our tests and for plugin authors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from surefind.types import Chunk, Document, Extraction, FloatArray, IdArray, IntArray, Mask, Query, Rankings, Signal

if TYPE_CHECKING:
    from surefind.prompts.meter import Meter
    from surefind.prompts.prompt import Prompt
    from surefind.prompts.values import Calls, Completion, Message, Workload

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


class ScoreCache(Protocol):
    """Values computed once, by key, kept between runs."""

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]: ...

    def put(self, rows: Sequence[tuple[bytes, bytes]]) -> None: ...


class Services(Protocol):
    """What a stage may use besides its input: encoders, language models, prompts, and the folders and caches behind
    them. `surefind.services.LocalServices` provides them."""

    @property
    def models_folder(self) -> Path | None:
        """Where models trained on this knowledge base are kept."""
        ...

    @property
    def scores(self) -> ScoreCache | None:
        """Scores of rerankers, kept for benchmarks."""
        ...

    @property
    def meter(self) -> Meter:
        """Counts what language models cost, and enforces the budget."""
        ...

    @property
    def replays(self) -> bool:
        """Whether unusable answers of an earlier run are taken from the cache instead of asked for again."""
        ...

    def embedder(self, model: str) -> QueryEmbedder:
        """The encoder of a spec, loaded once, behind the cache."""
        ...

    def chat(self, model: str = "") -> ChatModel:
        """A language model by its name (`openai:gpt-4.1-mini`); "" is the one that surefind.toml chooses."""
        ...

    def chat_name(self, model: str | None) -> str:
        """The name of the language model that `chat` would use."""
        ...

    def prompt(self, name: str, version: str, slots: Sequence[str]) -> Prompt:
        """The prompt of a step: the user's own of that name, or the built-in one."""
        ...


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
