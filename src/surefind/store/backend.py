"""What holds the chunks of a knowledge base and answers first-stage searches over them.

A `Backend` takes in the chunks of versions, makes sets of documents searchable and opens them. A `View` is one set in
one layout, opened to be read. Above them nobody sees how chunks are stored: a chunk has an id that is the same in every
process and generation, and who may see what is an `Access`, not a list of chunks. `surefind.testing.check_backend`
holds a backend to all of this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from surefind.access import Access, PathRule
from surefind.protocols import OnProgress, Retriever
from surefind.store.rows import Member
from surefind.types import PAD, Chunk, FloatArray, IdArray, Query, Rankings

if TYPE_CHECKING:
    from surefind.protocols import Services


@dataclass(frozen=True)
class Contents:
    """A set of documents, by the versions that it holds. `members` are asked for only where they are needed."""

    number: int
    members: Callable[[], Sequence[Member]]


@dataclass(frozen=True)
class Delta:
    """The chunks of one new version. `version` is its number in the catalogue, where its text is."""

    layout: str
    version: int
    chunks: Sequence[Chunk]


@dataclass(frozen=True, slots=True)
class Passage:
    """What a search returns for a chunk: the chunk itself, or the larger passage around it."""

    chunk: Chunk
    title: str
    metadata: Mapping[str, Any]
    location: str
    """Where what matched stands in the source: `page 3`; empty where there is no such thing."""
    matched: tuple[int, int] | None
    """The span of the chunk that was found, where a larger passage is returned."""


@dataclass(frozen=True, eq=False)
class Spans:
    """Where the passages of every chunk lie, for benchmarks: arrays in one order."""

    ids: IdArray
    documents: NDArray[np.integer[Any]]
    """The place of each one's document in `names`."""
    starts: IdArray
    ends: IdArray
    own_starts: IdArray
    own_ends: IdArray
    """Of the chunk itself, where a larger passage is returned."""
    names: Sequence[str]

    @cached_property
    def _order(self) -> tuple[IdArray, IdArray]:
        order = np.argsort(self.ids, kind="stable")
        return order, self.ids[order]

    def at(self, ids: Any) -> IdArray:
        """The places of ids in these arrays; padding stays padding."""
        asked = np.asarray(ids, np.int64)
        order, known = self._order
        if not len(known):
            return np.full(asked.shape, PAD, np.int64)
        return np.where(asked == PAD, PAD, order[np.searchsorted(known, asked).clip(max=len(known) - 1)])

    def document(self, id: int) -> str:
        return self.names[int(self.documents[self.at(id)])]


class View(Protocol):
    """One set of documents in one layout, opened. Immutable, and shared by threads.

    Every call that touches a document takes the `Access` of whoever asks, and answers as if the other documents did
    not exist. A retriever whose index is not there is an error (`NotBuiltError`), never a reason to build one."""

    layout: str

    @property
    def fingerprint(self) -> str:
        """Equal for equal documents cut in the same places."""
        ...

    @property
    def sketch(self) -> tuple[int, ...]: ...

    def __len__(self) -> int:
        """How many chunks."""
        ...

    def search(self, retriever: Retriever, queries: Sequence[Query], k: int, access: Access) -> Rankings:
        """The best k chunks for each query."""
        ...

    def score(self, retriever: Retriever, queries: Sequence[Query], ids: IdArray, access: Access) -> FloatArray:
        """The score of given chunks, (queries, chunks); padding scores -inf."""
        ...

    def near(self, retriever: Retriever, ids: Sequence[int], k: int, access: Access) -> Rankings:
        """The chunks nearest to given chunks, by vectors where the retriever has some, else by words."""
        ...

    def chunks(self, ids: Sequence[int], access: Access) -> list[Chunk]: ...

    def passages(self, ids: Sequence[int], access: Access) -> list[Passage]: ...

    def parents(self, ids: IdArray) -> IdArray | None:
        """For each chunk a number that is equal for chunks of which a search returns the same passage; None where every
        chunk is returned as it is."""
        ...

    def spans(self) -> Spans: ...

    def admitted(self, access: Access) -> Collection[str]:
        """The ids of the documents that these groups may read and that fit the filters."""
        ...

    def withheld(self, access: Access) -> int:
        """How many documents these groups and filters leave out."""
        ...

    def idle_rules(self) -> list[PathRule]:
        """The path rules that cover no document."""
        ...

    def missing(self, retrievers: Sequence[Retriever]) -> list[Retriever]:
        """Of these, those whose indexes are not there."""
        ...

    def ready(self, retrievers: Sequence[Retriever]) -> None:
        """Open the indexes of these retrievers, if they are not open yet."""
        ...

    def warm(self, earlier: View, required: Sequence[Retriever]) -> None:
        """Make ready what an earlier view was asked for, before anybody is sent here. What it had open must open if it
        is required; of the rest, what is not there is left out."""
        ...


class Backend(Protocol):
    def write(self, deltas: Sequence[Delta]) -> None:
        """Take in the chunks of new versions. Nobody sees them before a set that holds the versions is opened."""
        ...

    def uncut(self, contents: int, layout: str) -> list[int]:
        """Versions of a set whose chunks in this layout were not written yet."""
        ...

    def build(
        self, contents: Contents, layout: str, retrievers: Sequence[Retriever], services: Services, report: OnProgress
    ) -> list[str]:
        """Make a set searchable by these retrievers. What is there already is left alone; only chunks that no earlier
        set had cost work. Returns the names of what was built."""
        ...

    def has(self, contents: int, layout: str) -> bool:
        """Whether a set was made searchable in this layout, by whatever retriever."""
        ...

    def open(self, contents: Contents, layout: str, services: Services, rules: Sequence[PathRule]) -> View:
        """Raises `NotBuiltError` where the set was not made searchable in this layout."""
        ...

    def sizes(self, contents: int, layout: str) -> dict[str, int]:
        """Index spec -> bytes, of what a set is searched by."""
        ...

    def discard(self, after: int, gone: Sequence[int]) -> None:
        """Forget what an interrupted writer left: the chunks of versions that are gone, and sets after this one, whose
        numbers will be used again."""
        ...

    def sweep(self, keep: Collection[int], gone: Sequence[int]) -> None:
        """Forget the chunks of versions that are gone, and what only sets that are not kept need."""
        ...
