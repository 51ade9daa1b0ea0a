"""The values that flow through Surefind: plain, frozen, without logic of their own.

    Document ──chunk──> Chunk ──retrieve──> Rankings ──fuse, rerank──> Rankings ──> Hit

Between stages a result is `Rankings`: two arrays for a whole batch of queries, so that fusing 1,700
queries is array arithmetic. Python objects (`Hit`) appear only at the doors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
IdArray = NDArray[np.int64]
FloatArray = NDArray[np.float32]
ScoreArray = NDArray[np.floating[Any]]
"""float32 from retrievers, float64 from fusers: what they add up is exact to 1e-12."""
BoolArray = NDArray[np.bool_]

Signal = Literal["sparse", "dense", "graph", "mixed"]
"""What a ranking's scores say: shared words, closeness in meaning, links, or several at once."""

PAD = -1
"""The id that fills up the end of a short row of `Rankings`."""


_DOCUMENT_BITS, _CHUNK_BITS = 24, 39


class Place(NamedTuple):
    """From character `start` of a document on, its text stands at `name` in the source: `page 3`, `sheet Q2`."""

    start: int
    name: str


@dataclass(frozen=True, slots=True)
class Document:
    """One source document. Every offset anywhere in Surefind counts characters of `text`."""

    id: str
    text: str
    title: str = ""
    format: Literal["markdown", "text"] = "markdown"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    acl: tuple[str, ...] = ()
    """The groups that may read it; empty means everybody."""
    places: tuple[Place, ...] = ()
    """Where its parts stand in a source that has pages, sheets, slides, cells or lines; in order."""


@dataclass(frozen=True)
class Chunk:
    """A passage: `document.text[start:end] == text`, always. What is searched is `searchable`."""

    document: str
    start: int
    end: int
    text: str
    headings: tuple[str, ...] = ()
    context: str = ""
    """What is searched beside the text (a breadcrumb, a table's header row, a summary); never returned as text."""
    parent: tuple[int, int] | None = None
    """The span that a search returns in place of this one, where it is another."""
    title: str = ""
    """Of its document."""

    @cached_property
    def id(self) -> str:
        """Made of content and position, so that the same folder always gives the same ids."""
        position = f"{self.document}\0{self.start}\0{self.end}\0".encode()
        return hashlib.blake2b(position + self.text.encode(), digest_size=8).hexdigest()

    @cached_property
    def number(self) -> int:
        """Its id as rankings hold it: 63 bits, never negative, of which the first tell its document."""
        document = hashlib.blake2b(self.document.encode(), digest_size=_DOCUMENT_BITS // 8).digest()
        return int.from_bytes(document) << _CHUNK_BITS | int(self.id, 16) & ((1 << _CHUNK_BITS) - 1)

    @property
    def searchable(self) -> str:
        """What retrievers index: the context, then the text."""
        return f"{self.context}\n{self.text}" if self.context else self.text


def document_part(ids: IdArray) -> IdArray:
    """Equal for chunks of one document."""
    return ids >> _CHUNK_BITS


class Mention(NamedTuple):
    """A name in a text, and the number of the sentence that holds it."""

    name: str
    sentence: int
    type: str = ""
    """Person, organisation, …, where the extractor can tell."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """What a text says about entities. Every name stands in the text itself."""

    mentions: tuple[Mention, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    """(short, long) names that the text declares to mean the same."""
    relations: tuple[tuple[str, str, str], ...] = ()
    """(entity, relation, entity) that the text states, where the extractor can read that."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question, with an id where an exam has given it one."""

    text: str
    id: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Rankings:
    """The answers to a batch of queries: row i holds the ids of chunks for query i, best first.

    Above a backend an id is `Chunk.number`: the same in every process and every generation. An `Index`, which knows
    only the list it was built over, uses the place in that list. A short row ends in `PAD` with score -inf. Equal
    scores are in order of id, so that a result never depends on chance.
    """

    ids: IdArray
    scores: ScoreArray
    source: str = ""
    """The name of the stage that made it, such as `bm25`."""
    signal: Signal = "mixed"
    floor: float = float("nan")
    """The least score the stage could give: 0 for BM25, -1 for cosine; NaN where there is none."""

    def __post_init__(self) -> None:
        if self.ids.dtype != np.int64:  # compiled code and plugins count places in 32 bits
            object.__setattr__(self, "ids", self.ids.astype(np.int64))

    def __len__(self) -> int:
        """How many queries."""
        return int(self.ids.shape[0])

    def row(self, i: int) -> tuple[IdArray, ScoreArray]:
        """Query i's ids and scores without the padding."""
        n = int(np.count_nonzero(self.ids[i] != PAD))
        return self.ids[i, :n], self.scores[i, :n]


class Mask:
    """The chunks of one index that a search may find. Immutable; what is derived from it is derived once."""

    def __init__(self, bits: BoolArray | None) -> None:
        """`bits[place]` for every chunk; None allows all of them."""
        self.bits = None if bits is None or bool(bits.all()) else np.ascontiguousarray(bits)

    @cached_property
    def count(self) -> int | None:
        """How many are allowed; None for all."""
        return None if self.bits is None else int(np.count_nonzero(self.bits))

    @cached_property
    def key(self) -> bytes:
        """Equal for equal masks; empty where everything is allowed."""
        return b"" if self.bits is None else hashlib.blake2b(self.bits.tobytes(), digest_size=16).digest()

    @cached_property
    def packed(self) -> NDArray[np.uint8]:
        """Eight chunks a byte, the first in the lowest bit."""
        return np.packbits(np.zeros(0, np.bool_) if self.bits is None else self.bits, bitorder="little")

    @property
    def kernel(self) -> BoolArray:
        """As compiled code takes it: empty where everything is allowed."""
        return _ALL if self.bits is None else self.bits

    def places(self, n: int) -> IntArray:
        """The allowed ones of n chunks, by place."""
        return (np.arange(n) if self.bits is None else np.flatnonzero(self.bits)).astype(np.int32)


_ALL: BoolArray = np.zeros(0, dtype=np.bool_)
EVERY = Mask(None)
"""The mask that allows everything."""


class StageScore(NamedTuple):
    """Where one stage put a hit, and with what score."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage of a search result. `document.text[start:end] == text`."""

    rank: int
    score: float
    document: str
    chunk: str
    title: str
    headings: tuple[str, ...]
    start: int
    end: int
    text: str
    metadata: Mapping[str, Any]
    stages: Mapping[str, StageScore]
    """For each stage that saw this passage: its rank and score there."""
    location: str = ""
    """Where in its source what matched stands, if that has pages, sheets or the like: `page 3`, `sheet Q2`."""
    matched: tuple[int, int] | None = None
    """Where in the document the best matching part lies, if a larger passage is returned around it."""


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """What one stage did for one query."""

    stage: str
    spec: str
    candidates: int
    ms: float
    note: str = ""
    """Said when the stage fell back or cut something."""
    calls: int = 0
    """Requests to a paid service."""
    dollars: float = 0.0


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found: the hits, best first, and what each stage did."""

    query: str
    hits: tuple[Hit, ...]
    trace: tuple[TraceEntry, ...]
    pipeline: str = ""
    withheld: int = 0
    """How many documents the filters and access groups left out before ranking."""
    generation: int = 0
    """The generation that answered: every hit is of it."""
