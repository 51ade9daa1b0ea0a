"""The vector index: exact search up to `EXACT_LIMIT` chunks, IVF with 8-bit codes above.

Memory bandwidth limits the search of a single query. So it scans a copy in bfloat16, half the size, and scores the best
again in float64. Scores of the copy are off by less than `_HALF_ERROR`; if this leaves any doubt about the k best, the
float32 vectors are scanned as well. The scan is our own (`_scan_kernels`), because faiss holds Python's lock while it
scans and a second thread would wait. Many queries at once are a matrix product. Masks are applied while scanning, by
the kernel or by a faiss selector; no vector is copied for a mask. Scores are those of the float32 vectors in either
case: the codes only find candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from surefind.arrays import read_array
from surefind.blocks import Watch, watched
from surefind.cores import usable_cores
from surefind.errors import CorruptIndexError
from surefind.protocols import QueryEmbedder
from surefind.retrieve._cells import Cells
from surefind.retrieve._plain import constant, nearest, rescored, suffices
from surefind.types import PAD, FloatArray, IdArray, Mask, Query, Rankings

EXACT_LIMIT = 100_000
_FEW_ALLOWED = 20_000
"""If a mask allows fewer chunks than this, the search is exact: an approximate index would miss them."""
_FEW_QUERIES = 16
"""Up to this many queries are scanned one by one; more are one matrix product."""
_HALF_ERROR = 0.0025
"""Largest error of a bfloat16 score. Rounding changes each number by at most 2^-9 of itself, and the product of two
unit vectors by no more than that."""


class Vectors:
    def __init__(
        self, vectors: FloatArray, embedder: QueryEmbedder, cells: Cells | None = None, watch: Watch | None = None
    ) -> None:
        self.vectors: FloatArray = constant(vectors)
        self._embedder = embedder
        self.cells = cells
        self._watch = watch

    @classmethod
    def build(cls, vectors: FloatArray, embedder: QueryEmbedder) -> Vectors:
        return cls(vectors, embedder, Cells.build(vectors) if len(vectors) > EXACT_LIMIT else None)

    def __len__(self) -> int:
        return len(self.vectors)

    def save(self, folder: Path) -> None:
        np.save(folder / "vectors.npy", self.vectors)
        if self.cells is not None:
            self.cells.save(folder)

    @classmethod
    def load(cls, folder: Path, embedder: QueryEmbedder) -> Vectors:
        vectors = read_array(folder / "vectors.npy", np.float32, ndim=2)
        cells = Cells.load(folder, *vectors.shape) if (folder / "cells.npy").exists() else None
        watch = watched(folder / "vectors.npy", vectors)
        if watch and cells is None:  # every search reads all of it
            watch.use(0, len(vectors))
        return cls(vectors, embedder, cells, watch)

    def rows(self, places: IdArray) -> FloatArray:
        """The vectors of these places."""
        if self._watch:
            self._watch.use_rows(places)
        return self.vectors[places]

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        """Embeds the queries and ranks by cosine similarity."""
        return self.nearest(self.points(queries), k, allow)

    def points(self, queries: Sequence[Query]) -> FloatArray:
        """The vectors of the queries."""
        return self._embedder.embed_queries([query.text for query in queries])

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        """The similarities of given chunks, (queries, chunks); padding scores -inf."""
        return self.similarity(self.points(queries), ids)

    def similarity(self, points: FloatArray, ids: IdArray) -> FloatArray:
        rows = [self.rows(np.maximum(row, 0)) @ point for row, point in zip(ids, points, strict=True)]
        return np.where(ids == PAD, -np.inf, np.stack(rows)).astype(np.float32)

    def near(self, ids: Sequence[int], k: int, allow: Mask) -> Rankings:
        """The chunks nearest to given chunks. Each chunk finds itself first, if it is allowed."""
        return self.nearest(np.ascontiguousarray(self.rows(np.array(ids, np.int64))), k, allow)

    def nearest(self, points: FloatArray, k: int, allow: Mask) -> Rankings:
        if len(points) and points.shape[1] != self.vectors.shape[1]:  # the kernels would read beyond the vectors
            raise CorruptIndexError(
                f"The encoder gives vectors of {points.shape[1]} numbers, the index has {self.vectors.shape[1]}. "
                "Delete the folder .surefind and run: surefind sync."
            )
        allowed = len(self.vectors) if allow.count is None else allow.count
        k = min(k, allowed)
        if not k or not len(points):
            empty = np.full((len(points), 0), PAD, np.int64)
            return Rankings(empty, empty.astype(np.float32), "dense", "dense", -1.0)
        if self.cells is not None or len(points) <= _FEW_QUERIES:
            scores, found = self._scan(points, k, allow, allowed)
        else:
            scores, found = self._searched(points, k, allow, allowed)
        return _tidy(found, scores, k)

    def _searched(self, points: FloatArray, k: int, allow: Mask, allowed: int) -> tuple[Any, Any]:
        """Finds candidates for many points at once, and ranks them as `_scan` does: so a point gets the same chunks and
        scores, whatever is asked with it."""
        _, found = self._flat.search(points, min(allowed, 2 * k + 100), params=_parameters(allow))
        scores = np.full(found.shape, -np.inf, np.float32)
        for i, (point, places) in enumerate(zip(points, found, strict=True)):
            there = places >= 0
            scores[i, there] = rescored(self.rows(places[there]), point)
        return scores, found

    def _scan(self, points: FloatArray, k: int, allow: Mask, allowed: int) -> tuple[Any, Any]:
        """Finds candidates in the bfloat16 copy and ranks them in float32."""
        found = [self._scanned(point, k, allow, allowed) for point in constant(points)]
        width = max(len(places) for _, places in found)
        scores, places = np.full((len(found), width), -np.inf, np.float32), np.full((len(found), width), PAD, np.int64)
        for i, (own, where) in enumerate(found):
            scores[i, : len(own)], places[i, : len(where)] = own, where
        return scores, places

    def _scanned(self, point: FloatArray, k: int, allow: Mask, allowed: int) -> tuple[FloatArray, IdArray]:
        if self.cells is None:
            places = self._places(point, k, allow, allowed)
        else:
            places = self._approximate(self.cells, point, k, allow, allowed)
        return rescored(self.rows(places), point), places

    def _approximate(self, cells: Cells, point: FloatArray, k: int, allow: Mask, allowed: int) -> IdArray:
        """The places of about the k best, and of some more. A mask that allows few chunks would leave hardly any in the
        nearest cells, so then all cells are searched."""
        more = min(allowed, 2 * k + 100)
        if allowed < min(_FEW_ALLOWED, len(self)):
            return cells.every(point, more, allow.kernel)
        found = cells.nearest(point, more, allow.kernel, allowed / len(self))
        return found if len(found) >= k else cells.every(point, more, allow.kernel)

    def _places(self, point: FloatArray, k: int, allow: Mask, allowed: int) -> IdArray:
        """The places of the k best, and of some more."""
        if suffices(self.vectors.size, 1, "_scan_kernels"):
            return nearest(self.vectors, point, allow.kernel, k)
        more = min(allowed, 2 * k + 100)
        scores, places, lowest = _compiled().scan_half(self._half, self.vectors, point, allow.kernel, more)
        if more < allowed and np.partition(scores, more - k)[more - k] <= lowest + _HALF_ERROR:
            _, places = _compiled().scan_exact(self.vectors, point, allow.kernel, more)
        found: IdArray = places
        return found

    def warm(self) -> None:
        """Loads the compiled kernels, and makes the copy that they scan."""
        _compiled()
        if self.cells is None:
            _ = self._half

    @cached_property
    def _flat(self) -> Any:
        return _flat(self.vectors)

    @cached_property
    def _half(self) -> Any:
        """The vectors in bfloat16."""
        return _compiled().to_half(self.vectors)


def _compiled() -> Any:
    """The compiled kernels. They take half a second to load, which a single search can do without."""
    from surefind.retrieve import _scan_kernels

    return _scan_kernels


def _parameters(allow: Mask) -> Any:
    import faiss

    if allow.bits is None:
        return None
    chosen = faiss.IDSelectorBitmap(len(allow.bits), faiss.swig_ptr(allow.packed))
    chosen.bits = allow.packed  # faiss holds no reference to it
    return faiss.SearchParameters(sel=chosen)


def _flat(vectors: FloatArray) -> Any:
    import faiss

    faiss.omp_set_num_threads(usable_cores())
    index = faiss.IndexFlatIP(int(vectors.shape[1]))
    index.add(np.ascontiguousarray(vectors))
    return index


def _tidy(found: Any, scores: Any, k: int) -> Rankings:
    """The k best, equal scores in the order of their ordinals; places without a result become padding."""
    ordinals = np.where(found < 0, PAD, found).astype(np.int64)
    scores = np.where(found < 0, -np.inf, scores).astype(np.float32)
    order = np.lexsort((ordinals, -scores), axis=1)[:, :k]
    return Rankings(
        np.take_along_axis(ordinals, order, 1), np.take_along_axis(scores, order, 1), "dense", "dense", -1.0
    )
