"""The interface of storage: a backend holds the chunks of a knowledge base and answers first-stage searches.

A `Backend` takes in the chunks of versions, makes sets of documents searchable and opens them. A `View` is one set in
one layout, opened to be read. The code above this interface does not depend on how chunks are stored: a chunk has an id
that is the same in every process and generation, and the caller's rights are an `Access`, not a list of chunks.
`tests/backend_contract.py` tests that a backend fulfils all of this.

`StoreSettings` is the table [store] of surefind.toml.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from surefind.base.access import Access, PathRule
from surefind.base.errors import UsageError
from surefind.base.protocols import OnProgress, Retriever, Services
from surefind.base.types import PAD, Chunk, FloatArray, IdArray, Query, Rankings, Wording
from surefind.engine.store.table import Facet
from surefind.engine.store.versions import Member


@dataclass(frozen=True)
class Contents:
    """A set of documents: its number, and a function that reads its members. It is called only if they are needed."""

    number: int
    members: Callable[[], Sequence[Member]]
    digest: int | None = None
    """The digest of the numbers of its versions (`store.checksums.set_digest`); None before the set is committed."""


@dataclass(frozen=True)
class Delta:
    """The chunks of one new version. `version` is its number in the catalogue, which holds its text."""

    layout: str
    version: int
    chunks: Sequence[Chunk]


@dataclass(frozen=True, slots=True)
class Passage:
    """The passage that a search returns for a chunk: the chunk itself, or the larger passage around it."""

    chunk: Chunk
    title: str
    metadata: Mapping[str, Any]
    location: str
    """The source location of the matching chunk, such as `page 3`; empty if the source has no such locations."""
    matched: tuple[int, int] | None
    """The span of the chunk that was found, if a larger passage is returned; else None."""
    source: str = ""
    """The name of the source; empty if the document is from none."""
    path: str = ""
    """The path of the file in its source."""
    lines: tuple[int, int] | None = None
    """The first and the last line of the text in the source file, if the text is that of the file."""
    version: int = 0
    """The number of the document's version."""


@dataclass(frozen=True, eq=False)
class Spans:
    """The spans of the passages of every chunk, for benchmarks, as arrays with one element per chunk."""

    ids: IdArray
    documents: NDArray[np.integer[Any]]
    """The index of each chunk's document in `names`."""
    starts: IdArray
    ends: IdArray
    """The spans of the passages that a search returns are `starts` to `ends`."""
    own_starts: IdArray
    own_ends: IdArray
    """The spans of the chunks themselves, which are smaller where a larger passage is returned."""
    names: Sequence[str]
    """The ids of the documents."""

    @cached_property
    def _order(self) -> tuple[IdArray, IdArray]:
        order = np.argsort(self.ids, kind="stable")
        return order, self.ids[order]

    def at(self, ids: Any) -> IdArray:
        """Returns the positions of ids in these arrays; padding stays padding."""
        wanted = np.asarray(ids, np.int64)
        order, known = self._order
        if not len(known):
            return np.full(wanted.shape, PAD, np.int64)
        return np.where(wanted == PAD, PAD, order[np.searchsorted(known, wanted).clip(max=len(known) - 1)])

    def position(self, chunk_id: int) -> int:
        """Returns the position of one id, which must be there. Reports look up thousands one at a time, and `at` takes
        ten times as long for one."""
        order, known = self._order
        return int(order[known.searchsorted(chunk_id)])

    def document(self, chunk_id: int) -> str:
        """Returns the id of a chunk's document."""
        return self.names[int(self.documents[self.position(chunk_id)])]


@dataclass(frozen=True)
class Merged:
    """An index whose parts `Backend.merge` has merged, until a writer takes it in."""

    key: str
    """The key of the index."""
    contents: int
    """The number of its set of documents."""
    retriever: Retriever


class View(Protocol):
    """One set of documents in one layout, opened. Immutable, and shared by threads.

    Every call that touches a document takes the caller's `Access`, and answers as if the documents that the caller may
    not read did not exist. A missing index raises `NotBuiltError`; a view never builds one."""

    layout: str

    @property
    def fingerprint(self) -> str:
        """A string that is equal for equal documents cut in the same places."""
        ...

    @property
    def sketch(self) -> tuple[int, ...]:
        """The sketch of the documents, as `Corpus.sketch` describes it."""
        ...

    def __len__(self) -> int:
        """Returns the number of chunks."""
        ...

    def search(self, retriever: Retriever, queries: Sequence[Query], k: int, access: Access) -> Rankings:
        """Finds the best k chunks for each query."""
        ...

    def score(self, retriever: Retriever, queries: Sequence[Query], ids: IdArray, access: Access) -> FloatArray:
        """Scores given chunks: an array of shape (queries, chunks), in which padding is -inf."""
        ...

    def wording(self, retriever: Retriever, queries: Sequence[Query], access: Access) -> list[Wording] | None:
        """Returns what the retriever knows about the words of each query; None if it does not look at words."""
        ...

    def near(self, retriever: Retriever, ids: Sequence[int], k: int, access: Access) -> Rankings:
        """Finds the chunks nearest to given chunks, by vectors if the retriever has some, else by words."""
        ...

    def chunks(self, ids: Sequence[int], access: Access) -> list[Chunk]:
        """Returns the chunks with these ids."""
        ...

    def passages(self, ids: Sequence[int], access: Access, around: int | None = None) -> list[Passage]:
        """Returns the passages that a search returns for these chunks; with `around`, the chunks themselves with this
        many of their neighbours before and after them."""
        ...

    def parents(self, ids: IdArray) -> IdArray | None:
        """Returns a number for each chunk, equal for chunks for which a search returns the same passage; None if every
        chunk is returned as it is."""
        ...

    def spans(self) -> Spans:
        """Returns the spans of all chunks."""
        ...

    def admitted(self, access: Access) -> Collection[str]:
        """Returns the ids of the documents that these groups may read and that pass the filters."""
        ...

    def readable(self, access: Access) -> list[tuple[str, int]]:
        """Returns (id, version) of each document in `admitted`, in order of id."""
        ...

    def withheld(self, access: Access) -> int:
        """Returns the number of documents that these groups and filters leave out."""
        ...

    def languages(self) -> dict[str, int]:
        """Returns how many passages are in documents of each language, as their metadata says."""

    def facets(self, access: Access, keys: tuple[str, ...] = ()) -> tuple[Facet, ...]:
        """Returns the metadata keys that these groups can filter by, with the number of documents of each value: those
        in `keys`, or else those that help."""
        ...

    def idle_rules(self) -> list[PathRule]:
        """Returns the path rules that cover no document."""
        ...

    def missing(self, retrievers: Sequence[Retriever]) -> list[Retriever]:
        """Returns the retrievers, of these and the ones they use, whose indexes are missing."""
        ...

    def ready(self, retrievers: Sequence[Retriever]) -> None:
        """Opens the indexes of these retrievers, if they are not open yet."""
        ...

    def warm(self, earlier: View, required: Sequence[Retriever]) -> None:
        """Opens the indexes and masks that an earlier view had open, before this view gets its first search. Raises
        `NotBuiltError` if the index of a required retriever is missing; other missing indexes are skipped."""
        ...


class Backend(Protocol):
    """Stores chunks, makes sets of documents searchable and opens them."""

    def write(self, deltas: Sequence[Delta]) -> None:
        """Takes in the chunks of new versions. They are visible once a set that holds the versions is opened."""
        ...

    def uncut(self, contents: int, layout: str) -> list[int]:
        """Returns the versions of a set whose chunks in this layout were not written yet."""
        ...

    def build(
        self, contents: Contents, layout: str, retrievers: Sequence[Retriever], services: Services, report: OnProgress
    ) -> list[str]:
        """Makes a set searchable by these retrievers. Sound existing indexes stay as they are, and only chunks that no
        earlier set had cost work. Returns the names of the retrievers whose indexes were built."""
        ...

    def new_chunks(self, contents: Contents, layout: str, retriever: Retriever, services: Services) -> Sequence[Chunk]:
        """Returns the chunks of a set that was made searchable, of those that `build` has to index for a retriever
        because no earlier index has them. They are read when they are used. Empty if the backend cannot tell."""
        ...

    def crowded(
        self, contents: int, layout: str, retrievers: Sequence[Retriever], services: Services
    ) -> list[Retriever]:
        """Returns the retrievers, of these and the ones they use, for whose indexes `merge` has something to do."""
        ...

    def merge(
        self, contents: Contents, layout: str, retriever: Retriever, services: Services, report: OnProgress
    ) -> Merged | None:
        """Merges what many small changes have left in the index of a set. Needs no lock of a writer, because nothing
        that a reader or a writer uses is changed, but a lease on the set, and one merge at a time. Returns None if the
        index cannot be merged."""
        ...

    def take_merged(self, contents: Contents, layout: str, merged: Merged, services: Services) -> bool:
        """Takes in what `merge` made, for the set that will follow `contents`; a writer calls it. A set that was
        written since the merge began may lack some of it. Returns False if too little fits, and deletes it."""
        ...

    def has(self, contents: int, layout: str) -> bool:
        """Returns whether a set was made searchable in this layout, by any retriever."""
        ...

    def open(self, contents: Contents, layout: str, services: Services, rules: Sequence[PathRule]) -> View:
        """Opens a set. Raises `NotBuiltError` if it was not made searchable in this layout."""
        ...

    def sizes(self, contents: int, layout: str) -> dict[str, int]:
        """Returns the bytes of each index of a set, by index spec."""
        ...

    def folders(self, contents: int) -> list[Path]:
        """Returns the folders on this machine that a set needs, in all layouts. They do not change while it is kept."""
        ...

    def discard(self, after: int, gone: Sequence[int]) -> None:
        """Deletes the leftovers of an interrupted writer: the chunks of the versions in `gone`, and all sets after
        number `after`, because these numbers will be used again."""
        ...

    def sweep(self, keep: Collection[int], gone: Sequence[int]) -> None:
        """Deletes the chunks of the versions in `gone`, and everything that none of the kept sets needs."""
        ...


BACKENDS = ("local", "milvus")


@dataclass(frozen=True)
class StoreSettings:
    backend: str = "local"
    uri: str = ".surefind/milvus.db"
    """The address of a Milvus server, or the path of a milvus-lite folder."""
    token_env: str = ""
    """The environment variable with the token of the server."""

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The backend and its address, unless it is the local one: for keys of results that depend on it."""
        return () if self.backend == "local" else (self.backend, self.uri)

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise UsageError(f"backend must be one of {', '.join(BACKENDS)}, not {self.backend!r}.")
        if "://" not in self.uri and not self.uri.endswith(".db"):
            raise UsageError(
                "uri must be a path that ends in .db (milvus-lite), or an address like http://localhost:19530, not "
                f"{self.uri!r}."
            )
        if "://" in self.uri and not self.uri.startswith(("http://", "https://")):
            raise UsageError(f"uri must begin with http:// or https://, not {self.uri!r}.")
        if not re.fullmatch(r"([A-Z_][A-Z0-9_]*)?", self.token_env):  # the message does not repeat what may be a token
            raise UsageError(
                "token_env must be the name of an environment variable in capitals (such as SUREFIND_MILVUS_TOKEN), "
                "not the token."
            )
