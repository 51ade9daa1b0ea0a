"""The vector index: exact search up to `EXACT_LIMIT` chunks, IVF with 8-bit codes above.

Memory bandwidth limits the search of a single query. So it scans a copy in bfloat16, half the size, and scores the best
again in float64. Scores of the copy are off by less than `_HALF_ERROR`; if this leaves any doubt about the k best, the
float32 vectors are scanned as well. The scan is our own (`_scan_kernels`), because faiss holds Python's lock while it
scans and a second thread would wait. Many queries at once are a matrix product. Masks are applied while scanning, by
the kernel or by a faiss selector; no vector is copied for a mask.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from surefind.arrays import read_array
from surefind.cores import usable_cores
from surefind.errors import CorruptIndexError
from surefind.protocols import QueryEmbedder
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
_SEED = 1234


class Vectors:
    def __init__(self, vectors: FloatArray, embedder: QueryEmbedder, ivf: Any = None) -> None:
        self.vectors: FloatArray = constant(vectors)
        self._embedder = embedder
        self._ivf = ivf

    @classmethod
    def build(cls, vectors: FloatArray, embedder: QueryEmbedder) -> Vectors:
        return cls(vectors, embedder, _ivf(vectors) if len(vectors) > EXACT_LIMIT else None)

    def __len__(self) -> int:
        return len(self.vectors)

    def save(self, folder: Path) -> None:
        np.save(folder / "vectors.npy", self.vectors)
        if self._ivf is not None:
            import faiss

            faiss.write_index(self._ivf, str(folder / "ivf.faiss"))

    @classmethod
    def load(cls, folder: Path, embedder: QueryEmbedder) -> Vectors:
        vectors = read_array(folder / "vectors.npy", np.float32, ndim=2)
        path = folder / "ivf.faiss"
        if not path.exists():
            return cls(vectors, embedder)
        import faiss

        ivf = faiss.read_index(str(path))
        if (ivf.ntotal, ivf.d) != vectors.shape or not isinstance(ivf, faiss.IndexIVF):
            raise ValueError(f"ivf.faiss is not an inverted file of vectors.npy, whose shape is {vectors.shape}")
        return cls(vectors, embedder, ivf)

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
        rows = [self.vectors[np.maximum(row, 0)] @ point for row, point in zip(ids, points, strict=True)]
        return np.where(ids == PAD, -np.inf, np.stack(rows)).astype(np.float32)

    def near(self, ids: Sequence[int], k: int, allow: Mask) -> Rankings:
        """The chunks nearest to given chunks. Each chunk finds itself first, if it is allowed."""
        return self.nearest(np.ascontiguousarray(self.vectors[list(ids)]), k, allow)

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
        if self._ivf is not None:
            scores, found = self._approximate(points, k, allow, allowed)
        elif len(points) <= _FEW_QUERIES:
            scores, found = self._scan(points, k, allow, allowed)
        else:
            scores, found = self._flat.search(points, k, params=_parameters(allow))
        return _tidy(found, scores, k)

    def _approximate(self, points: FloatArray, k: int, allow: Mask, allowed: int) -> tuple[Any, Any]:
        """Searches the inverted file. If few chunks are allowed, a few cells would miss most of them, so all cells are
        searched and the best are scored again in float32."""
        if allowed >= min(_FEW_ALLOWED, len(self.vectors)):
            scores, found = self._ivf.search(points, k, params=_parameters(allow, nprobe=_probes(self._ivf.nlist)))
            return scores, self._real(found)
        more = min(allowed, 2 * k + 100)
        _, found = self._ivf.search(points, more, params=_parameters(allow, nprobe=self._ivf.nlist))
        found = self._real(found)
        return self.similarity(points, found), found

    def _real(self, found: Any) -> Any:
        """Replaces numbers that no vector has by padding. faiss does not show the numbers of a file beforehand."""
        return np.where(found < len(self.vectors), found, PAD)

    def _scan(self, points: FloatArray, k: int, allow: Mask, allowed: int) -> tuple[Any, Any]:
        """Finds candidates in the bfloat16 copy and ranks them in float32."""
        found = [self._scanned(point, k, allow, allowed) for point in constant(points)]
        width = max(len(places) for _, places in found)
        scores, places = np.full((len(found), width), -np.inf, np.float32), np.full((len(found), width), PAD, np.int64)
        for i, (own, where) in enumerate(found):
            scores[i, : len(own)], places[i, : len(where)] = own, where
        return scores, places

    def _scanned(self, point: FloatArray, k: int, allow: Mask, allowed: int) -> tuple[FloatArray, IdArray]:
        places = self._places(point, k, allow, allowed)
        return rescored(self.vectors, places, point), places

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
        if self._ivf is None:
            _compiled()
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


def _parameters(allow: Mask, nprobe: int | None = None) -> Any:
    import faiss

    options: dict[str, Any] = {}
    if allow.bits is not None:
        options["sel"] = faiss.IDSelectorBitmap(len(allow.bits), faiss.swig_ptr(allow.packed))
        options["sel"].bits = allow.packed  # faiss holds no reference to it
    if nprobe is not None:
        return faiss.SearchParametersIVF(nprobe=nprobe, **options)
    return faiss.SearchParameters(**options) if options else None


def _flat(vectors: FloatArray) -> Any:
    import faiss

    faiss.omp_set_num_threads(usable_cores())
    index = faiss.IndexFlatIP(int(vectors.shape[1]))
    index.add(np.ascontiguousarray(vectors))
    return index


def _ivf(vectors: FloatArray) -> Any:
    """Builds an IVF index of about 4·sqrt(n) cells, trained on a fixed sample: the same corpus gives the same index."""
    import faiss

    n, dimension = vectors.shape
    cells = 2 ** round(math.log2(4 * math.sqrt(n)))
    index = faiss.index_factory(dimension, f"IVF{cells},SQ8", faiss.METRIC_INNER_PRODUCT)
    sample = np.random.default_rng(_SEED).choice(n, size=min(n, 48 * cells), replace=False)
    index.train(np.ascontiguousarray(vectors[np.sort(sample)]))
    index.add(np.ascontiguousarray(vectors))
    return index


def _probes(cells: int) -> int:
    return max(16, cells // 32)


def _tidy(found: Any, scores: Any, k: int) -> Rankings:
    """The k best, equal scores in the order of their ordinals; places without a result become padding."""
    ordinals = np.where(found < 0, PAD, found).astype(np.int64)
    scores = np.where(found < 0, -np.inf, scores).astype(np.float32)
    order = np.lexsort((ordinals, -scores), axis=1)[:, :k]
    return Rankings(
        np.take_along_axis(ordinals, order, 1), np.take_along_axis(scores, order, 1), "dense", "dense", -1.0
    )
