"""An inverted file of vectors with 8-bit codes (IVF-SQ8): vectors are grouped into cells, and few cells are searched.

The cells are those of spherical k-means on a fixed sample, so that the same vectors give the same index. A code has 8
bits for each number, scaled over the range of that dimension. The codes find candidates; `_vectors` scores them again.

    score(q, v) = Σ_j q_j v_j ≈ Σ_j q_j (middle_j + step_j · code_j)

The query's weights q_j · step_j are rounded to 8 bits as well, and the first term is the same for all vectors. So a
scan adds up products of small integers.

The arrays are mapped into memory, their blocks are checked when a search first uses them, masks need no copy, and the
search lets other threads run. Jégou et al., Product Quantization for Nearest Neighbor
Search, 2011 (inverted files); Johnson et al., Billion-scale similarity search, 2019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.base.disk.arrays import check_length, check_offsets, check_range, read_array
from surefind.base.disk.blocks import Watch, watched
from surefind.base.types import BoolArray, FloatArray, IdArray, IntArray
from surefind.engine.retrieve._plain import constant

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
    watch: Watch | None = None

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
        return cls(codes, members, cells, centroids, ranges, watched(folder / "codes.npy", codes))

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
        from surefind.engine.retrieve import _scan_kernels

        if self.watch:
            for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
                self.watch.use(first, last)
        exact = self.ranges[1] * point
        weights = np.rint(exact * (127 / max(float(np.abs(exact).max()), 1e-30))).astype(np.int8)
        nearest_ids: IdArray = _scan_kernels.scan_cells(
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
