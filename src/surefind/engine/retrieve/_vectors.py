"""The vector index: exact search up to `EXACT_LIMIT` chunks, IVF with 8-bit codes above.

Memory bandwidth limits the search of a single query. So it scans a copy in bfloat16, half the size, and scores the best
again in float64. Scores of the copy are off by less than `_HALF_ERROR`; if this leaves any doubt about the k best, the
float32 vectors are scanned as well. The scan (`_scan_kernels`) lets other threads run. Many queries at once are a
matrix product (`_plain`). Masks are applied while scanning, and to the product. Scores are those of the float32 vectors
in either case: the codes only find candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from surefind.base.disk.arrays import read_array
from surefind.base.disk.blocks import Watch, watched
from surefind.base.errors import CorruptIndexError
from surefind.base.protocols import QueryEmbedder
from surefind.base.types import PAD, FloatArray, IdArray, Mask, Query, Rankings
from surefind.engine.retrieve._cells import Cells
from surefind.engine.retrieve._plain import constant, nearest, rescored, suffices

EXACT_LIMIT = 100_000
_MAX_GATHERED = 20_000
"""If a mask allows fewer chunks than this, the search is exact: an approximate index would miss them."""
_MAX_SCANNED_QUERIES = 16
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
        without_kernels = len(points) > _MAX_SCANNED_QUERIES or suffices(self.vectors.size, 1, "_scan_kernels")
        if self.cells is None and without_kernels:
            places = nearest(self.vectors, points, allow.kernel, k)
        else:
            places = [self._places(point, k, allow, allowed) for point in constant(points)]
        return self._ranked(points, places, k)

    def _ranked(self, points: FloatArray, rows: Sequence[IdArray], k: int) -> Rankings:
        """Scores the places that were found for each point in float32 and ranks the k best; equal scores are in the
        order of their places. So a point gets the same ranking, whatever is asked with it."""
        width = min(k, max(map(len, rows)))
        places = np.full((len(rows), width), PAD, np.int64)
        scores = np.full((len(rows), width), -np.inf, np.float32)
        for i, (point, own) in enumerate(zip(points, rows, strict=True)):
            exact = rescored(self.rows(own), point)
            best = np.lexsort((own, -exact))[:width]
            places[i, : len(best)], scores[i, : len(best)] = own[best], exact[best]
        return Rankings(places, scores, "dense", "dense", -1.0)

    def _places(self, point: FloatArray, k: int, allow: Mask, allowed: int) -> IdArray:
        """The places of the k best, and of some more."""
        if self.cells is not None:
            return self._approximate(self.cells, point, k, allow, allowed)
        more = min(allowed, 2 * k + 100)
        scores, places, lowest = _compiled().scan_half(self._half, self.vectors, point, allow.kernel, more)
        if more < allowed and np.partition(scores, more - k)[more - k] <= lowest + _HALF_ERROR:
            _, places = _compiled().scan_exact(self.vectors, point, allow.kernel, more)
        nearest_ids: IdArray = places
        return nearest_ids

    def _approximate(self, cells: Cells, point: FloatArray, k: int, allow: Mask, allowed: int) -> IdArray:
        """The places of about the k best, and of some more. A mask that allows few chunks would leave hardly any in the
        nearest cells, so then all cells are searched."""
        more = min(allowed, 2 * k + 100)
        if allowed < min(_MAX_GATHERED, len(self)):
            return cells.every(point, more, allow.kernel)
        nearest_ids = cells.nearest(point, more, allow.kernel, allowed / len(self))
        return nearest_ids if len(nearest_ids) >= k else cells.every(point, more, allow.kernel)

    def warm(self) -> None:
        """Loads the compiled kernels, and makes the copy that they scan."""
        _compiled()
        if self.cells is None:
            _ = self._half

    @cached_property
    def _half(self) -> Any:
        """The vectors in bfloat16."""
        return _compiled().to_half(self.vectors)


def _compiled() -> Any:
    """The compiled kernels. They take half a second to load, which a single search can do without."""
    from surefind.engine.retrieve import _scan_kernels

    return _scan_kernels
