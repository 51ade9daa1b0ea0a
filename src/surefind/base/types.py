"""The values that pass between stages: plain frozen dataclasses with hardly any logic.

    Document ──chunk──> Chunk ──retrieve──> Rankings ──fuse, rerank──> Rankings ──> Hit

Between stages a result is a `Rankings`: two arrays for a whole batch of queries, so that fusing the rankings of 1,700
queries is array arithmetic. A `Hit`, one Python object per passage, exists only in the result of a search.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    IntArray = NDArray[np.int32]
    IdArray = NDArray[np.int64]
    FloatArray = NDArray[np.float32]
    Floats = NDArray[np.float64]
    ScoreArray = NDArray[np.floating[Any]]
    """Scores: float32 from retrievers, float64 from fusers, whose sums are exact to 1e-12."""
    BoolArray = NDArray[np.bool_]
else:
    # A process that only reads files and cuts them needs no arrays, and would spend a third of its start on numpy. It
    # is imported when the first array is made, or the first type of arrays is asked for.
    _ITEMS = {
        "IntArray": "int32",
        "IdArray": "int64",
        "FloatArray": "float32",
        "Floats": "float64",
        "ScoreArray": "floating",
        "BoolArray": "bool_",
    }

    class _Numpy:
        def __getattr__(self, name: str) -> Any:
            import numpy

            attribute = getattr(numpy, name)
            setattr(self, name, attribute)
            return attribute

    np = _Numpy()

    def __getattr__(name: str) -> Any:
        if name not in _ITEMS:
            raise AttributeError(f"module 'surefind.base.types' has no attribute {name!r}")
        import numpy.typing

        return numpy.typing.NDArray[getattr(numpy, _ITEMS[name])]


Signal = Literal["sparse", "dense", "graph", "mixed"]
"""The kind of evidence that scores express: shared words, closeness in meaning, links, or several at once."""

Effort = Literal["read", "quick", "off"]
"""How a search finds out how sure it is: a small model reads the first hits; from the scores alone; not at all."""

PAD = -1
"""The id that fills the end of a short row of `Rankings`."""


_DOCUMENT_BITS, _CHUNK_BITS = 24, 39


@dataclass(frozen=True)
class ExamName:
    """The exam that something was trained, calibrated or measured on."""

    name: str
    fingerprint: str | None = None
    """None for readers who may not know it."""


class Place(NamedTuple):
    """The source location `name` (`page 3`, `sheet Q2`) of a document's text from character `start` on."""

    start: int
    name: str
    line: int = 0
    """The line of the source file at `start`, if the lines of the text are those of the file; else 0."""


@dataclass(frozen=True, slots=True)
class Document:
    """One source document. Every offset anywhere in Surefind counts characters of `text`."""

    id: str
    text: str
    title: str = ""
    format: Literal["markdown", "text"] = "markdown"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    acl: tuple[str, ...] = ()
    """The groups that may read the document; empty means everybody."""
    places: tuple[Place, ...] = ()
    """The source locations of its parts, in order, if the source has pages, sheets, slides, cells or lines."""


@dataclass(frozen=True)
class Chunk:
    """A passage of a document: `document.text[start:end] == text`, always. Indexes are built from `searchable`."""

    document: str
    start: int
    end: int
    text: str
    headings: tuple[str, ...] = ()
    context: str = ""
    """Words searched together with the text (a breadcrumb, a table's header row, a summary); never returned as text."""
    parent: tuple[int, int] | None = None
    """The larger span that a search returns in place of this one; None if it returns the chunk itself."""
    title: str = ""
    """The title of its document."""
    language: str = ""
    """The language of its text, such as de; empty if it is not known."""

    @cached_property
    def id(self) -> str:
        """A hash of content and position, so that the same folder always gives the same ids."""
        position = f"{self.document}\0{self.start}\0{self.end}\0".encode()
        return hashlib.blake2b(position + self.text.encode(), digest_size=8).hexdigest()

    @cached_property
    def number(self) -> int:
        """The id as used in rankings: 63 bits, never negative. The first 24 bits are a hash of the document's id."""
        document = hashlib.blake2b(self.document.encode(), digest_size=_DOCUMENT_BITS // 8).digest()
        return int.from_bytes(document) << _CHUNK_BITS | int(self.id, 16) & ((1 << _CHUNK_BITS) - 1)

    @property
    def searchable(self) -> str:
        """The context, if there is one, and the text: what indexes are built from."""
        return f"{self.context}\n{self.text}" if self.context else self.text


def document_part(ids: IdArray) -> IdArray:
    """Returns the document bits of chunk ids, which are equal for chunks of one document."""
    return ids >> _CHUNK_BITS


class Mention(NamedTuple):
    """A name in a text, and the number of the sentence that holds it."""

    name: str
    sentence: int
    type: str = ""
    """Person, organisation …; empty if the extractor does not know."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """The entities that a text mentions. Every name occurs in the text itself."""

    mentions: tuple[Mention, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    """Pairs (short, long) of names that the text declares to mean the same."""
    relations: tuple[tuple[str, str, str], ...] = ()
    """Triples (entity, relation, entity) that the text states; empty if the extractor reads no relations."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question, with an id if it is from an exam."""

    text: str
    id: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Rankings:
    """The results of a batch of queries: row i holds the chunk ids for query i, best first.

    An id is `Chunk.number`, the same in every process and every generation. The rankings of an `Index` are different:
    an index knows only the list it was built over, so its ids are places in that list. A short row ends in `PAD` with
    score -inf. Equal scores are in order of id, so that a result never depends on chance.
    """

    ids: IdArray
    scores: ScoreArray
    source: str = ""
    """The name of the stage that made the rankings, such as `bm25`."""
    signal: Signal = "mixed"
    floor: float = float("nan")
    """The lowest score the stage can give: 0 for BM25, -1 for cosine; NaN if there is no lower bound."""

    def __post_init__(self) -> None:
        if self.ids.dtype != np.int64:  # compiled code and plugins return 32-bit places
            object.__setattr__(self, "ids", self.ids.astype(np.int64))

    def __len__(self) -> int:
        """Returns the number of queries."""
        return int(self.ids.shape[0])

    def row(self, i: int) -> tuple[IdArray, ScoreArray]:
        """Returns the ids and scores of query i without padding."""
        n = int(np.count_nonzero(self.ids[i] != PAD))
        return self.ids[i, :n], self.scores[i, :n]


class Mask:
    """The chunks of one index that a search may find. Immutable; derived values are computed once and kept."""

    def __init__(self, bits: BoolArray | None) -> None:
        """`bits[place]` says whether a chunk is allowed; None allows all of them."""
        self.bits = None if bits is None or bool(bits.all()) else np.ascontiguousarray(bits)

    @cached_property
    def count(self) -> int | None:
        """The number of allowed chunks; None if all are allowed."""
        return None if self.bits is None else int(np.count_nonzero(self.bits))

    @cached_property
    def key(self) -> bytes:
        """A key that is equal for equal masks; empty if everything is allowed."""
        return b"" if self.bits is None else hashlib.blake2b(self.bits.tobytes(), digest_size=16).digest()

    @property
    def kernel(self) -> BoolArray:
        """The bits as compiled code expects them: empty if everything is allowed."""
        return np.zeros(0, np.bool_) if self.bits is None else self.bits

    def places(self, n: int) -> IntArray:
        """Returns the places of the allowed chunks of an index of n chunks."""
        return (np.arange(n) if self.bits is None else np.flatnonzero(self.bits)).astype(np.int32)


EVERY = Mask(None)
"""The mask that allows everything."""


class Wording(NamedTuple):
    """What an index knows about the words of a query."""

    best: float
    """The highest score that a passage of these words could get. Unknown words count as the rarest ones."""
    words: int
    """The number of words that are searched for."""
    known: int
    """How many of them occur in a passage that the caller may see."""
    weights: Mapping[str, float]
    """The weight of each term of these words."""
    analyzer: str
    """The spec of the analyzer that turns text into terms."""


def _shallow(value: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass. `dataclasses.asdict` copies everything inside them, and takes ten times as
    long."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


class StageScore(NamedTuple):
    """The rank and the score of a hit in one stage."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage of a search result. `document.text[start:end] == text`."""

    rank: int
    score: float
    document: str
    id: str
    """The id of the passage that was found: `surefind show ID` reads it. It stays the same while the passage does."""
    title: str
    headings: tuple[str, ...]
    start: int
    end: int
    text: str
    metadata: Mapping[str, Any]
    stages: Mapping[str, StageScore]
    """The rank and score of this passage in each stage that saw it."""
    location: str = ""
    """The source location of the matching text, such as `page 3` or `sheet Q2`; empty if the source has none."""
    matched: tuple[int, int] | None = None
    """The span of the best matching part in the document, if a larger passage is returned around it."""
    sentence: tuple[int, int] | None = None
    """The span of the sentence that shares most with the query; None if no sentence shares a word with it."""
    source: str = ""
    """The name of the source; empty for a document that was published from a draft, without a folder."""
    path: str = ""
    """The path of the file in its source."""
    lines: tuple[int, int] | None = None
    """The first and the last line of the text in the source file, front matter included; None if the text was converted
    from another format."""
    version: int = 0
    """The number of the document's version."""

    @property
    def citation(self) -> str:
        """Where the text is: the document, with lines, page, sheet or slide."""
        lines = f":{self.lines[0]}-{self.lines[1]}" if self.lines else ""
        location = f"  {self.location}" if self.location and not self.location.startswith("line") else ""
        return f"{self.document}{lines}{location}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form of the hit, the same for every interface."""
        data = _shallow(self)
        data["metadata"] = dict(self.metadata)
        data["stages"] = {name: place._asdict() for name, place in self.stages.items()}
        return data


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """A record of what one stage did for one query."""

    stage: str
    spec: str
    candidates: int
    ms: float
    note: str = ""
    """A remark of the stage, for example that it fell back or cut something."""
    calls: int = 0
    """The number of requests to a paid service."""
    dollars: float = 0.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """A retriever that a search did without, because its index is still being built."""

    retriever: str
    done: int = 0
    """Passages that have a vector, if this retriever is being worked on and the caller may read every document."""
    total: int = 0
    share: float = 0.0
    """The share of the passages that have one."""
    seconds_left: float | None = None
    running: bool = False
    """Whether a process builds the index of this retriever, or one before it."""
    by_words: bool = False
    """Whether documents are found by their words alone meanwhile."""


SURE = ((0.6, "likely here"), (0.25, "perhaps here"), (0.0, "probably not here"))
"""What a confidence of at least each number means in words; docs/confidence.md says how often each holds."""


def in_words(confidence: float | None) -> str:
    """Returns how sure a confidence is; empty if there is none."""
    return "" if confidence is None else next(words for least, words in SURE if confidence >= least)


@dataclass(frozen=True, slots=True)
class Turn:
    """A question that was asked before, and the documents that its answer cited."""

    query: str
    documents: tuple[str, ...] = ()


History = tuple[Turn, ...]
"""The questions before, oldest first."""


@dataclass(frozen=True, slots=True)
class Quote:
    """What one of the first passages of a search says to the query, in the words of its document."""

    rank: int
    """The rank of its passage, from 1."""
    text: str
    """A line for each of its paragraphs, items, rows and lines of code."""
    mark: tuple[int, int]
    """The characters of the text that answer best."""
    span: tuple[int, int]
    """Where it stands in the text of the document."""
    logit: float
    """What the reader says of its best block."""
    score: float
    """The same with the words that the block shares with the query, and the rank of its passage."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search: the hits, best first, and the trace of the stages."""

    query: str
    hits: tuple[Hit, ...]
    trace: tuple[TraceEntry, ...]
    pipeline: str = ""
    withheld: int = 0
    """The number of documents that the filters and access groups left out before ranking."""
    generation: int = 0
    """The number of the generation that was searched."""
    confidence: float | None = None
    """The probability that the first hit answers the query, whatever `offset` is; None if it was not computed."""
    confidence_from: str = ""
    """What the probability was calibrated on, in words; without one, why it cannot be said."""
    confidence_own: bool = False
    """Whether that were questions about this knowledge base. If not, people are shown `sure`, not the number."""
    known_words: float | None = None
    """The share of the query's words that occur in the documents; None if no stage looks at words."""
    closest: Hit | None = None
    """The best passage, if the confidence is below the minimum that was asked for. There are no hits then."""
    waiting_for: tuple[Waiting, ...] = ()
    """The retrievers of the pipeline that took no part, because their indexes are still being built."""
    searched: str = ""
    """What was searched instead of the query, because it leans on the question before it; else empty."""
    quotes: tuple[Quote, ...] = ()
    """What a reader found in the first passages, if it has read them: what answers quote."""

    @property
    def sure(self) -> str:
        """The confidence in words; empty if it was not computed."""
        return in_words(self.confidence)

    @property
    def answered(self) -> bool:
        """Whether there is a hit, and the confidence is not below the minimum that was asked for."""
        return bool(self.hits)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form of the result, the same for every interface. How many documents were left out is not
        part of it: a caller must not learn how many there are that it may not read."""
        data = _shallow(self)
        del data["withheld"], data["quotes"]
        data["trace"] = [_shallow(entry) for entry in self.trace]
        data["waiting_for"] = [_shallow(item) for item in self.waiting_for]
        closest = {"document": self.closest.document, "title": self.closest.title} if self.closest else None
        hits = [hit.to_dict() for hit in self.hits]
        return data | {"sure": self.sure, "answered": self.answered, "closest": closest, "hits": hits}
