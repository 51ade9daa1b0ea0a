"""The vector index: exact search up to `EXACT_LIMIT` chunks, IVF with 8-bit codes above.

Memory bandwidth limits the search of a single query. So it scans a copy in bfloat16, half the size, and scores the best
again in float64. Scores of the copy are off by less than `_HALF_ERROR`; if this leaves any doubt about the k best, the
float32 vectors are scanned as well. The scan (`_scan_kernels`) lets other threads run. Many queries at once are a
matrix product (`_plain`). Masks are applied while scanning, and to the product. Scores are those of the float32 vectors
in either case: the codes only find candidates.

Large indexes are inverted files (IVF-SQ8): vectors are grouped into cells, and few cells are searched. The cells are
those of spherical k-means on a fixed sample, so that the same vectors give the same index. A code has 8 bits for each
number, scaled over the range of that dimension. The codes find candidates, which are scored again.

    score(q, v) = Σ_j q_j v_j ≈ Σ_j q_j (middle_j + step_j · code_j)

The query's weights q_j · step_j are rounded to 8 bits as well, and the first term is the same for all vectors. So a
scan adds up products of small integers. Jégou et al., Product Quantization for Nearest Neighbor Search, 2011 (inverted
files); Johnson et al., Billion-scale similarity search, 2019.

In an index of several parts each part searches as it would alone, exactly or by its cells; scores are those of the
float32 vectors in either case, so that rankings of parts can be merged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from surefind.base.abilities import Part
from surefind.base.disk.arrays import check_length, check_offsets, check_range, read_array
from surefind.base.errors import CorruptIndexError
from surefind.base.protocols import QueryEmbedder
from surefind.base.types import PAD, BoolArray, FloatArray, IdArray, IntArray, Mask, Query, Rankings
from surefind.engine.retrieve._joined import Division
from surefind.engine.retrieve._plain import constant, nearest, rescored, suffices

_PER_CELL = 64
"""The vectors of the sample for each cell."""
_ROUNDS = 8
"""The rounds of k-means. More than this hardly changed what is found."""
_BATCH = 16_384
"""The vectors that are assigned to cells at a time."""
_PROBED = 6
"""One cell in this many is searched: 98% of the ten nearest are found then (docs/results/scale.md)."""
_MIN_CELLS = 16
"""The fewest cells that are searched."""
_SEED = 1234
FILES = ("codes", "members", "cells", "centroids", "ranges")


@dataclass(frozen=True, eq=False)
class Cells:
    codes: NDArray[np.int8]
    """The codes of the vectors, one cell after another."""
    members: IntArray
    """The place of the vector in each row of `codes`."""
    cells: NDArray[np.int64]
    """The row at which each cell begins, and the number of rows."""
    centroids: FloatArray
    ranges: FloatArray
    """The middle and the step of each dimension."""

    @classmethod
    def build(cls, vectors: FloatArray) -> Cells:
        """Groups the vectors into about sqrt(n) cells: then training and assigning cost less than reading the texts."""
        n, dimension = vectors.shape
        count = 2 ** round(math.log2(max(4.0, math.sqrt(n))))
        chosen = np.random.default_rng(_SEED).choice(n, size=min(n, _PER_CELL * count), replace=False)
        sample = np.ascontiguousarray(vectors[np.sort(chosen)])
        centroids = _centroids(sample, count)
        low, high = sample.min(0), sample.max(0)
        middle, step = (low + high) / 2, np.maximum(high - low, 1e-6) / 255
        owners = _owners(vectors, centroids)
        order = np.argsort(owners, kind="stable").astype(np.int32)
        codes = np.empty((n, dimension), np.int8)
        for at in range(0, n, _BATCH):
            rows = vectors[order[at : at + _BATCH]]
            codes[at : at + _BATCH] = np.clip(np.rint((rows - middle) / step), -128, 127)
        cells = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=count), dtype=np.int64)])
        return cls(codes, order, cells, centroids, np.stack([middle, step]).astype(np.float32))

    def save(self, folder: Path) -> None:
        for name in FILES:
            np.save(folder / f"{name}.npy", getattr(self, name))

    @classmethod
    def load(cls, folder: Path, count: int, dimension: int) -> Cells:
        """Reads the cells of `count` vectors, and checks everything that the kernel relies on."""
        codes = read_array(folder / "codes.npy", np.int8, ndim=2)
        members = read_array(folder / "members.npy", np.int32)
        cells = read_array(folder / "cells.npy", np.int64)
        centroids, ranges = (read_array(folder / f"{name}.npy", np.float32, ndim=2) for name in FILES[3:])
        check_length("codes", codes, count)
        check_length("members", members, count)
        check_range("members", members, 0, count)
        check_offsets("cells", cells, len(centroids), count)
        check_length("ranges", ranges, 2)
        if {codes.shape[1], centroids.shape[1], ranges.shape[1]} != {dimension}:
            raise ValueError(f"the cells are not those of vectors of {dimension} numbers")
        return cls(codes, members, cells, centroids, ranges)

    def nearest(self, point: FloatArray, more: int, allow: BoolArray, share: float) -> IdArray:
        """Returns the places of about `more` vectors near a point. `share` is the share of the vectors that the mask
        allows: the fewer, the more cells are searched."""
        probed = min(len(self.centroids), round(max(_MIN_CELLS, len(self.centroids) / _PROBED) / math.sqrt(share)))
        near = np.argpartition(-(self.centroids @ point), probed - 1)[:probed]
        near = np.sort(near[self.cells[near] < self.cells[near + 1]])
        return self._scan(point, more, allow, self.cells[near], self.cells[near + 1])

    def every(self, point: FloatArray, more: int, allow: BoolArray) -> IdArray:
        """As `nearest`, but searches all cells."""
        return self._scan(point, more, allow, self.cells[:1], self.cells[-1:])

    def _scan(self, point: FloatArray, more: int, allow: BoolArray, firsts: Any, lasts: Any) -> IdArray:
        exact = self.ranges[1] * point
        weights = np.rint(exact * (127 / max(float(np.abs(exact).max()), 1e-30))).astype(np.int8)
        nearest_ids: IdArray = _compiled().scan_cells(
            constant(self.codes), constant(self.members), firsts, lasts, weights, allow, more
        )
        return nearest_ids


def _centroids(sample: FloatArray, count: int) -> FloatArray:
    """Spherical k-means: unit centroids of the sample. A cell that loses all its vectors keeps its centroid."""
    made = sample[np.sort(np.random.default_rng(_SEED).choice(len(sample), count, replace=False))]
    for _ in range(_ROUNDS):
        owners = _owners(sample, made)
        order = np.argsort(owners, kind="stable")
        used, firsts = np.unique(owners[order], return_index=True)
        sums = np.add.reduceat(sample[order], firsts, axis=0)
        made[used] = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
    return made


def _owners(vectors: FloatArray, centroids: FloatArray) -> IntArray:
    """The cell of each vector: that of the nearest centroid."""
    owners: IntArray = np.empty(len(vectors), np.int32)
    for at in range(0, len(vectors), _BATCH):
        owners[at : at + _BATCH] = np.argmax(vectors[at : at + _BATCH] @ centroids.T, axis=1)
    return owners


EXACT_LIMIT = 100_000
_MAX_GATHERED = 20_000
"""If a mask allows fewer chunks than this, the search is exact: an approximate index would miss them."""
_MAX_SCANNED_QUERIES = 16
"""Up to this many queries are scanned one by one; more are one matrix product."""
_HALF_ERROR = 0.0025
"""Largest error of a bfloat16 score. Rounding changes each number by at most 2^-9 of itself, and the product of two
unit vectors by no more than that."""


class Vectors:
    def __init__(self, vectors: FloatArray, embedder: QueryEmbedder, cells: Cells | None = None) -> None:
        self.vectors: FloatArray = constant(vectors)
        self._embedder = embedder
        self.cells = cells

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
        return cls(vectors, embedder, cells)

    def rows(self, places: IdArray) -> FloatArray:
        """The vectors of these places."""
        return self.vectors[places]

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        """Embeds the queries and ranks by cosine similarity."""
        return ranked(retriever, queries, lambda some: self.nearest(self.points(some), k, allow))

    def points(self, queries: Sequence[Query]) -> FloatArray:
        """The vectors of the queries."""
        return self._embedder.embed_queries([query.text for query in queries])

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        """The similarities of given chunks, (queries, chunks); padding scores -inf, and a query that is not asked 0."""
        return scored(retriever, queries, ids, lambda some, own: self.similarity(self.points(some), own))

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


def ranked(retriever: Any, queries: Sequence[Query], search: Callable[[Sequence[Query]], Rankings]) -> Rankings:
    """Searches for the queries that the retriever is asked; others find nothing, and are not embedded."""
    asked = retriever.asked(queries) if hasattr(retriever, "asked") else None
    if asked is None or len(asked) == len(queries):
        return search(queries)
    rankings = search([queries[i] for i in asked]) if asked else _NONE
    ids = np.full((len(queries), rankings.ids.shape[1]), PAD, np.int64)
    scores = np.full(ids.shape, -np.inf, np.float32)
    ids[asked], scores[asked] = rankings.ids, rankings.scores
    return replace(rankings, ids=ids, scores=scores)


_NONE = Rankings(np.zeros((0, 0), np.int64), np.zeros((0, 0), np.float32), "dense", "dense", -1.0)


def scored(
    retriever: Any, queries: Sequence[Query], ids: IdArray, score: Callable[[Sequence[Query], IdArray], FloatArray]
) -> FloatArray:
    """Scores chunks for the queries that the retriever is asked; others score 0."""
    asked = retriever.asked(queries) if hasattr(retriever, "asked") else None
    if asked is None or len(asked) == len(queries):
        return score(queries, ids)
    scores = np.where(ids == PAD, -np.inf, 0.0).astype(np.float32)
    if asked:
        scores[asked] = score([queries[i] for i in asked], ids[asked])
    return scores


class JoinedVectors:
    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = [cast(Vectors, part.index) for part in parts]
        if len({part.vectors.shape[1] for part in self.parts}) > 1:
            raise ValueError("the parts have vectors of different lengths")
        self._division = Division([part.places for part in parts])

    def __len__(self) -> int:
        return self._division.count

    def save(self, folder: Path) -> None:
        """Writes nothing: the parts are saved already."""

    def warm(self) -> None:
        for part in self.parts:
            part.warm()

    def points(self, queries: Sequence[Query]) -> FloatArray:
        """The vectors of the queries."""
        return self.parts[0].points(queries)

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        """Embeds the queries and ranks by cosine similarity."""
        return ranked(retriever, queries, lambda some: self.nearest(self.points(some), k, allow))

    def nearest(self, points: FloatArray, k: int, allow: Mask) -> Rankings:
        masks = self._division.masks(allow)
        rankings = [part.nearest(points, k, mask) for part, mask in zip(self.parts, masks, strict=True)]
        return self._division.merged(rankings, k)

    def near(self, ids: Sequence[int], k: int, allow: Mask) -> Rankings:
        """The chunks nearest to given chunks. Each chunk finds itself first, if it is allowed."""
        return self.nearest(self.rows(np.array(ids, np.int64)), k, allow)

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        """The similarities of given chunks, (queries, chunks); padding scores -inf, and a query that is not asked 0."""
        return scored(retriever, queries, ids, lambda some, own: self.similarity(self.points(some), own))

    def similarity(self, points: FloatArray, ids: IdArray) -> FloatArray:
        return self._division.scored(ids, lambda i, own: self.parts[i].similarity(points, own))

    def rows(self, places: IdArray) -> FloatArray:
        """The vectors of these places."""
        vectors = np.zeros((len(places), self.parts[0].vectors.shape[1]), np.float32)
        for i, there, local in self._division.located(places):
            vectors[there] = self.parts[i].rows(local[there])
        return vectors
