"""The protocols that stages implement: one verb for each kind of stage, with batches in and out.

A stage is *configuration*: a frozen dataclass with its spec as text form (`surefind.base.spec.Stage`), cheap to
make, safe to hash and compare. The `Index` that a retriever builds is *state*: it is saved, checked and loaded.
`surefind.testing` has a contract suite for each protocol, for our tests and for plugin authors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

if TYPE_CHECKING:
    from surefind.base.prompts.prompt import Prompt
    from surefind.base.prompts.values import Completion, Message, Meter
    from surefind.base.types import (
        Chunk,
        Document,
        Extraction,
        FloatArray,
        IdArray,
        IntArray,
        Mask,
        Query,
        Rankings,
        Signal,
    )

Progress = Callable[[int, int], None]
"""A callback for progress, called with (done, total) during long work."""
OnProgress = Callable[[str, int, int], None]
"""A callback for progress of work with several parts, called with (part, done, total)."""


class Reader(Protocol):
    """Turns a file into documents."""

    suffixes: ClassVar[tuple[str, ...]]
    """The file name endings that it reads, such as `.md`, or whole file names; in lower case."""

    def read(self, path: Path, document_id: str) -> Iterable[Document]:
        """Reads the documents of a file. `id` is for a file with one document. Raises `SourceError` on failure."""


class Chunker(Protocol):
    """Cuts a document into chunks.

    Most chunkers need only the text. A chunker that looks at meaning asks `services` for an encoder or a chat model."""

    def chunk(self, document: Document, services: Services) -> list[Chunk]:
        """Cuts a document. `document.text[c.start:c.end] == c.text` for every chunk `c`, on any text."""


class Enricher(Protocol):
    """Adds context to chunks, which is searched together with their text."""

    def enrich(self, document: Document, chunks: list[Chunk], services: Services) -> list[Chunk]:
        """Returns the chunks of a document with their `context` set and everything else unchanged."""


class Analyzer(Protocol):
    """Turns text into the terms that lexical retrieval counts."""

    def tokens(self, text: str) -> list[str]:
        """Splits a text into tokens."""

    def terms(self, token: str) -> tuple[str, ...]:
        """Returns the terms of one token, such as its stem; none for a stop word."""


class Extractor(Protocol):
    """Finds the entities that texts mention."""

    def extract(self, texts: Sequence[str], services: Services, progress: Progress | None = None) -> list[Extraction]:
        """Extracts the entities of each text, and the aliases and relations that it states."""


class Embedder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def dimension(self) -> int:
        """The number of components of a vector."""

    @property
    def fingerprint(self) -> str:
        """A string that changes whenever the vectors would. With the text it is the key of the vector cache."""

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        """Encodes texts: one row for each text, a unit vector."""


@runtime_checkable
class QueryEmbedder(Embedder, Protocol):
    """An encoder that encodes questions differently from passages. Its `embed` is for passages."""

    @property
    def query_fingerprint(self) -> str:
        """A string that changes whenever the vectors of questions would."""

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """Encodes questions: one row for each question, a unit vector."""


class CachingEmbedder(QueryEmbedder, Protocol):
    """An encoder that may keep its vectors."""

    def lacking(self, texts: Sequence[str]) -> int:
        """Returns how many of these texts it keeps no vector of."""
        ...


class ChatModel(Protocol):
    """Asks a language model."""

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 512,
        temperature: float = 0.0,
    ) -> Completion:
        """Answers a conversation within the model's timeout. Every failure raises a `SurefindError`."""


class ScoreCache(Protocol):
    """Keeps computed values by key between runs."""

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Returns the stored values of these keys; keys without a value are left out."""

    def put(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Stores (key, value) pairs."""


class Services(Protocol):
    """Gives stages what they need besides their input: encoders, language models, prompts, folders and caches.
    `surefind.engine.services.LocalServices` implements it."""

    @property
    def models_folder(self) -> Path | None:
        """The folder of the models that were trained on this knowledge base."""

    @property
    def scores(self) -> ScoreCache | None:
        """The cache of reranker scores, which benchmarks use."""

    @property
    def meter(self) -> Meter:
        """The meter that adds up the cost of language models and enforces the budget."""

    @property
    def replays(self) -> bool:
        """Whether an unusable answer of an earlier run is reused from the cache instead of being requested again."""

    def located(self, path: str) -> Path:
        """Resolves a path in a spec or in the settings: in the folder of the knowledge base if it exists there, else as
        written."""

    def embedder(self, model: str) -> CachingEmbedder:
        """Returns the encoder of a spec, loaded once, with the vector cache in front of it."""

    def chat(self, model: str = "") -> ChatModel:
        """Returns a language model by its name (`openai:gpt-4.1-mini`); "" is the one that surefind.toml chooses."""

    def chat_name(self, model: str | None) -> str:
        """Returns the name of the language model that `chat` would use."""

    def prompt(self, name: str, version: str, slots: Sequence[str]) -> Prompt:
        """Returns the prompt of a step: the user's own prompt of that name, or the built-in one."""


class Index(Protocol):
    """The searchable data that a retriever built over a fixed list of chunks. Immutable; ids are places in the list."""

    def __len__(self) -> int:
        """Returns the number of chunks."""

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        """Finds the best k allowed chunks for each query. The mask is applied *before* top-k."""

    def save(self, folder: Path) -> None:
        """Writes the index into a folder, from which `Retriever.load` reads it."""


@runtime_checkable
class ScoringIndex(Index, Protocol):
    """An index that can score chunks that a search did not return (`missing=score`)."""

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        """Scores given chunks: an array of shape (queries, chunks), in which padding is -inf. A score that depends on
        other chunks uses only allowed ones."""


@runtime_checkable
class VectorIndex(ScoringIndex, Protocol):
    """An index of vectors, which finds the neighbours of chunks without an encoder."""

    def near(self, ids: Sequence[int], k: int, allow: Mask) -> Rankings:
        """Finds the chunks nearest to each given chunk. A chunk finds itself first if it is allowed."""

    def nearest(self, points: FloatArray, k: int, allow: Mask) -> Rankings:
        """Finds the allowed chunks nearest to each vector."""

    def similarity(self, points: FloatArray, ids: IdArray) -> FloatArray:
        """Returns the similarity of row i of `points` to each chunk in row i of `ids`; padding is -inf."""

    def points(self, queries: Sequence[Query]) -> FloatArray:
        """Encodes queries as vectors."""


@runtime_checkable
class Retriever(Protocol):
    """Builds an index over chunks and ranks the chunks for queries."""

    name: ClassVar[str]
    """The name of the stage, such as `bm25`."""
    signal: ClassVar[Signal]
    """The kind of evidence that the scores express."""

    def index_spec(self, services: Services) -> str:
        """Names what matters for building: a part of the spec, and the weights of an encoder. Retrievers that differ
        only in search-time parameters (k1, b) share one index."""

    def build(
        self,
        chunks: Sequence[Chunk],
        services: Services,
        reuse: Reuse | None = None,
        progress: Progress | None = None,
    ) -> Index:
        """Builds the index of `chunks`. With `reuse`, only new chunks cost work; the result is the same."""

    def load(self, folder: Path, services: Services) -> Index:
        """Loads an index that `Index.save` wrote."""


@dataclass(frozen=True, slots=True)
class Reuse:
    """An earlier index, and the place in it of each chunk of the new list (-1: a new chunk).

    Chunks that are in both have the same order in both.
    """

    index: Index
    origin: IntArray


class Fuser(Protocol):
    """Joins several rankings of the same queries into one."""

    def fuse(self, rankings: Sequence[Rankings], k: int) -> Rankings:
        """Joins rankings and returns the best k chunks of each query."""


class Reranker(Protocol):
    """Reorders the top of a ranking by reading the passages.

    Reranking is optional: if it raises an error, the search uses the ranking before it and the trace says so."""

    def rerank(
        self, queries: Sequence[Query], rankings: Rankings, passages: Passages, k: int, services: Services
    ) -> Rankings:
        """Returns the best k chunks of each query in their new order."""


SKETCH = 1000
"""The number of documents whose hashes represent a corpus in its sketch."""


class Corpus(Protocol):
    """Describes the documents that a trained stage is used on, so that it can compare them with its training."""

    layout: str
    """The text form of the layout."""

    @property
    def fingerprint(self) -> str:
        """A string that is equal for equal documents cut in the same places."""

    @property
    def sketch(self) -> tuple[int, ...]:
        """The `SKETCH` lowest hashes of the documents' ids and contents, ascending."""


class Passages(Protocol):
    """Fetches chunks by id: only the requested ones, and only those that the caller may read."""

    def __getitem__(self, ids: Sequence[int]) -> list[Chunk]:
        """Returns the chunks with these ids, in the same order."""


@runtime_checkable
class PassageSource(Protocol):
    """Passages plus neighbours and new searches, for rerankers that look beyond their ranking. It gives only what the
    caller may read. A pipeline hands it to every reranker; one that gets plain `Passages` uses the ranking alone."""

    def __getitem__(self, ids: Sequence[int]) -> list[Chunk]:
        """Returns the chunks with these ids, in the same order."""

    def near(self, ids: Sequence[int], k: int) -> list[list[int]]:
        """Finds the ids of the k nearest other passages of each passage."""

    def search(self, queries: Sequence[Query], k: int) -> Rankings:
        """Runs the stages before the rerankers for other queries, and returns the best k chunks of each."""
