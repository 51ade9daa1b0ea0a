"""Indexes whose rows are in Milvus. They take and return places, as every `Index` does.

The milvus backend's view: searches of `bm25` and `dense` go to Milvus, all others to the indexes on this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from surefind.base.abilities import declared
from surefind.base.access import Access
from surefind.base.errors import CorruptIndexError, NotBuiltError, SpecError
from surefind.base.protocols import Index, QueryEmbedder, Retriever
from surefind.base.types import EVERY, PAD, FloatArray, IdArray, Mask, Query, Rankings, Wording
from surefind.engine.store.backends.milvus.record import (
    Expressions,
    Record,
    both,
    is_remote,
    key_of,
    record_key,
    remote_spec,
    remote_specs,
)
from surefind.engine.store.backends.milvus.server import MAX_HITS, Server, Vector
from surefind.engine.store.backends.milvus.words import Analysis
from surefind.engine.store.backends.view import LocalView
from surefind.engine.store.indexes import IndexStore, each_needed
from surefind.engine.store.table import ChunkTable

_QUERIES = 64
"""Queries in one call."""
_MAX_LISTED = 10_000
"""Chunks that an expression may list."""


class RemoteMask(Mask):
    """A mask with the expression that means the same in Milvus."""

    def __init__(self, bits: Any, expression: str) -> None:
        super().__init__(bits)
        self.expression = expression


class _Remote:
    """What both kinds of indexes share."""

    kind: Vector

    def __init__(self, server: Server, record: Record, table: ChunkTable) -> None:
        self._server = server
        self._record = record
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    def save(self, folder: Path) -> None:
        self._record.save(folder)

    @cached_property
    def _keys(self) -> IdArray:
        """The row of each place."""
        keys: IdArray = key_of(self._table.rows[0], self._table.rows[1])
        return keys

    @cached_property
    def _order(self) -> tuple[IdArray, IdArray]:
        order = np.argsort(self._keys, kind="stable")
        return order, self._keys[order]

    def _places(self, keys: Sequence[int], allow: Mask) -> IdArray:
        """Returns the places of rows. A row that this set does not have, or that the mask forbids, is padding: the
        server must not return one, and if it does, nobody sees it."""
        order, known = self._order
        wanted = np.array(keys, np.int64)
        at = np.searchsorted(known, wanted).clip(max=max(len(known) - 1, 0))
        places = np.where(known[at] == wanted, order[at], PAD)
        if allow.bits is not None:
            places = np.where((places != PAD) & allow.bits[np.maximum(places, 0)], places, PAD)
        return places

    def _expression(self, allow: Mask) -> str:
        if isinstance(allow, RemoteMask):
            return both(self._record.expression, allow.expression)
        if allow.bits is None:
            return self._record.expression
        if (allow.count or 0) > _MAX_LISTED:
            raise SpecError(f"A search of Milvus can be limited to {_MAX_LISTED} single chunks, not to {allow.count}.")
        return f"id in {self._keys[allow.bits].tolist()}"

    def _found(self, vectors: Sequence[Any], k: int, allow: Mask) -> tuple[IdArray, FloatArray]:
        """Searches Milvus: the places and scores of the best k of each vector, equal scores in the order of places. An
        empty vector finds nothing."""
        k = min(k, len(self) if allow.count is None else allow.count, MAX_HITS)
        places, scores = np.full((len(vectors), k), PAD, np.int64), np.full((len(vectors), k), -np.inf, np.float32)
        asked = [i for i, vector in enumerate(vectors) if len(vector)] if k else []
        expression = self._expression(allow) if asked else ""
        for at in range(0, len(asked), _QUERIES):
            some = asked[at : at + _QUERIES]
            rows_found = self._server.search(self._record.alias, self.kind, [vectors[i] for i in some], k, expression)
            for i, row in zip(some, rows_found, strict=True):
                own, values = self._places([key for key, _ in row], allow), np.array([s for _, s in row], np.float32)
                order = np.lexsort((own, -values, own == PAD))[:k]
                order = order[own[order] != PAD]
                places[i, : len(order)], scores[i, : len(order)] = own[order], values[order]
        return places, scores

    def _vectors(self, ids: IdArray) -> dict[int, Any]:
        """Returns the vectors of places."""
        places = np.unique(ids[ids != PAD])
        keys = self._keys[places].tolist()
        vectors = self._server.vectors(self._record.alias, keys)
        if len(vectors) < len(keys):
            raise NotBuiltError("Milvus has lost some passages of this generation. Restore them with: surefind sync.")
        return {place: vectors[key] for place, key in zip(places.tolist(), keys, strict=True)}


class RemoteWords(_Remote):
    """The index of `bm25` in Milvus."""

    kind: Vector = "sparse"

    def __init__(self, server: Server, record: Record, table: ChunkTable, analyzer: str) -> None:
        super().__init__(server, record, table)
        if record.words is None:
            raise CorruptIndexError(f"The record of {record.alias} has no statistics of words.")
        self._words = record.words
        self._analysis = Analysis(analyzer)

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        vectors = [self._words.query(self._asked(retriever, query)) for query in queries]
        return Rankings(*self._found(vectors, k, allow), "bm25", "sparse", 0.0)

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        """The scores of given chunks, (queries, chunks). A chunk with none of the words scores 0, padding -inf."""
        weights = self._vectors(ids)
        scores = np.full(ids.shape, -np.inf, np.float32)
        for i, query in enumerate(queries):
            asked = self._words.query(self._asked(retriever, query))
            for j, place in enumerate(ids[i].tolist()):
                if place != PAD:
                    own = weights[place]
                    scores[i, j] = sum(weight * own.get(word, 0.0) for word, weight in asked.items())
        return scores

    def wording(self, retriever: Any, queries: Sequence[Query], allow: Mask) -> list[Wording]:
        asked = [self._asked(retriever, query) for query in queries]
        there = self._occurring({term for terms in asked for of in terms for term in of}, allow)
        return [self._wording(retriever, analyzed, there) for analyzed in asked]

    def _wording(self, retriever: Any, asked: list[tuple[str, ...]], there: set[str]) -> Wording:
        """Does what `bm25` does on this machine: an unknown word counts as the rarest."""
        unknown = float(np.log1p((self._words.chunks + 0.5) / 0.5))
        weights: dict[str, float] = {}
        words = known = 0
        for terms in filter(None, asked):  # stop words have none
            weights_of = {term: self._words.idf(term) for term in terms if term in there}
            weights |= weights_of or dict.fromkeys(terms[:1], unknown)
            words, known = words + 1, known + bool(weights_of)
        return Wording((retriever.k1 + 1) * sum(weights.values()), words, known, weights, retriever.analyzer)

    def _occurring(self, terms: set[str], allow: Mask) -> set[str]:
        """Returns the terms that an allowed chunk has."""
        known = sorted(term for term in terms if self._words.has(term))
        if allow.bits is None or not known:
            return set(known)
        places, _ = self._found([{self._words.number(term): 1.0} for term in known], 1, allow)
        occurring = (places != PAD).any(axis=1) if places.size else np.zeros(len(known), np.bool_)
        return {term for term, there in zip(known, occurring.tolist(), strict=True) if there}

    def _asked(self, retriever: Any, query: Query) -> list[tuple[str, ...]]:
        """The terms of a query. The analyzer is the retriever's, which may treat queries differently."""
        if retriever.analyzer != self._analysis.spec:
            return Analysis(retriever.analyzer).asked(query.text)
        return self._analysis.asked(query.text)


class RemoteVectors(_Remote):
    """The index of `dense` in Milvus."""

    kind: Vector = "dense"

    def __init__(self, server: Server, record: Record, table: ChunkTable, embedder: QueryEmbedder) -> None:
        super().__init__(server, record, table)
        self._embedder = embedder

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        return self.nearest(self.points(queries), k, allow)

    def points(self, queries: Sequence[Query]) -> FloatArray:
        return self._embedder.embed_queries([query.text for query in queries])

    def nearest(self, points: FloatArray, k: int, allow: Mask) -> Rankings:
        return Rankings(*self._found([point.tolist() for point in points], k, allow), "dense", "dense", -1.0)

    def near(self, ids: Sequence[int], k: int, allow: Mask) -> Rankings:
        vectors = self._vectors(np.array(ids, np.int64))
        return self.nearest(
            np.array([vectors[chunk_id] for chunk_id in ids], np.float32).reshape(len(ids), -1), k, allow
        )

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        return self.similarity(self.points(queries), ids)

    def similarity(self, points: FloatArray, ids: IdArray) -> FloatArray:
        vectors = {place: np.array(vector, np.float32) for place, vector in self._vectors(ids).items()}
        scores = np.full(ids.shape, -np.inf, np.float32)
        for i, point in enumerate(points):
            for j, place in enumerate(ids[i].tolist()):
                if place != PAD:
                    scores[i, j] = vectors[place] @ point
        return scores


class MilvusView(LocalView):
    """Implements `View` on a table on this machine and collections in Milvus."""

    _server: Server
    _records: IndexStore
    _contents: int

    def connect(self, server: Server, records: IndexStore, contents: int) -> None:
        """Says where the rows of this set are, and the records about them."""
        self._server = server
        self._records = records
        self._contents = contents

    @cached_property
    def _expressions(self) -> Expressions:
        return Expressions(self.table, self._rules)

    def _resolve(self, access: Access) -> tuple[Mask, int]:
        """Adds the expression to the mask. The mask on this machine is computed as well: it refuses unknown keys, and
        what Milvus returns is checked against it."""
        mask, hidden = super()._resolve(access)
        return (mask if mask is EVERY else RemoteMask(mask.bits, self._expressions.of(access))), hidden

    def missing(self, retrievers: Sequence[Retriever]) -> list[Retriever]:
        local = super().missing([retriever for retriever in each_needed(retrievers) if not is_remote(retriever)])
        remote = remote_specs(retrievers, self._services)
        return [
            *(retriever for retriever in local if not is_remote(retriever)),
            *(retriever for spec, retriever in remote.items() if not self._there(spec)),
        ]

    def _there(self, spec: str) -> bool:
        key = record_key(self._contents, self.layout, spec)
        return self._records.has(key) and self._server.exists(self._read(key).alias)

    def _open(self, retriever: Retriever) -> Index:
        wraps = declared(retriever).inner is not None
        return super()._open(retriever) if wraps or not is_remote(retriever) else self._remote(retriever)

    def _remote(self, retriever: Any) -> RemoteWords | RemoteVectors:
        key = record_key(self._contents, self.layout, remote_spec(retriever, self._services))
        if not self._records.has(key):
            raise NotBuiltError(
                f"Milvus has no index for {retriever} over these documents. Build it with surefind sync (for the "
                "pipelines in surefind.toml), surefind search (for the pipeline that you give it), or kb.build(...)."
            )
        record = self._read(key)
        check_complete(self._server, record, len(self))
        if retriever.name == "bm25":
            return RemoteWords(self._server, record, self.table, retriever.analyzer)
        return RemoteVectors(self._server, record, self.table, self._services.embedder(retriever.model))

    def _read(self, key: str) -> Record:
        try:
            return self._records.read(key, Record.load, whole=True)
        except CorruptIndexError as error:
            raise NotBuiltError(f"{error} Rebuild it with: surefind sync.") from error


def check_complete(server: Server, record: Record, rows: int) -> None:
    """Raises `NotBuiltError` if a collection does not have all rows of a set, or has others."""
    if server.target(record.alias) != record.collection:
        raise NotBuiltError(
            f"Milvus at {server.uri} does not have this generation. Write it again with: surefind sync."
        )
    server.load(record.collection)
    count = server.count(record.collection, record.expression)
    if count != rows:
        raise NotBuiltError(
            f"Milvus has {count} passages of this generation instead of {rows}. Write them again with: surefind sync."
        )
