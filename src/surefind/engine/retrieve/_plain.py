"""Searches by numpy alone: for a process that searches once, where loading the compiled kernels would take longer than
the search, and for many vectors at once, which are a matrix product. The results are the same, bit by bit.

Postings: the kernel adds weight · gain in float32, term by term, and so does this. Vectors: both ways find the best
places, and `rescored` gives them their scores.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from surefind.base.types import BoolArray, FloatArray, IdArray

DENSE_SHARE = 4
"""A term that occurs in more than one chunk in this many has a row of its own."""
_MAX_NUMPY_POSTINGS = 3_000_000
"""Postings or numbers of an index up to which a search by numpy is faster than loading the kernels."""
_BATCH = 64
"""Points that are compared with all vectors at a time."""
_ONE_THREAD_PRODUCTS = 1 << 25
"""Multiplications up to which a product needs one thread only; they take some 5 ms."""
_GROUP = 16
"""Scores of which only the best is looked at to find a bound."""
_LAST = 0x7FFFFFFF
_FORBIDDEN = np.float32(-1e30)


def constant(array: Any) -> Any:
    """A view that nobody writes to. An index that was built and one that was loaded then have the same type, and numba
    compiles each kernel once."""
    view = array.view()
    view.flags.writeable = False
    return view


def suffices(size: int, queries: int, kernels: str) -> bool:
    """Whether to search without these kernels: they are not loaded, and there is little to do."""
    return queries == 1 and size <= _MAX_NUMPY_POSTINGS and f"surefind.engine.retrieve.{kernels}" not in sys.modules


def compiled() -> Any:
    """The compiled kernels. They take half a second to load, which a single search can do without."""
    from surefind.engine.retrieve import _kernels

    return _kernels


def best_chunks(terms: list[tuple[float, Any, Any]], allow: BoolArray, n: int, k: int) -> tuple[IdArray, FloatArray]:
    """Returns the k best of n chunks and their scores. Each term has its weight, its chunks and their gains, in the
    order in which the kernel adds them. Chunks without a term are left out; of equal scores, the first is better."""
    scores = np.zeros(n, np.float32)
    if len(allow):
        scores[~allow] = _FORBIDDEN
    for weight, chunks, gains in terms:
        scores[chunks] += np.float32(weight) * gains
    matching = np.flatnonzero(scores > 0)
    keys = (scores[matching].view(np.int32).astype(np.int64) << 32) | (_LAST - matching)
    if len(keys) > k:
        keys = np.partition(keys, len(keys) - k)[len(keys) - k :]
    best = _LAST - (np.sort(keys)[::-1] & _LAST)
    return best, scores[best]


def nearest(vectors: FloatArray, points: FloatArray, allow: BoolArray, k: int) -> list[IdArray]:
    """Returns the places of the k allowed vectors that are nearest to each point, and of those that are as near but for
    rounding, in their order. At least k vectors must be allowed."""
    places = np.flatnonzero(allow) if len(allow) and 2 * np.count_nonzero(allow) < len(allow) else None
    if places is not None:
        vectors, allow = vectors[places], allow[:0]
    # Twice the largest error of a float32 product of unit vectors.
    rounding = np.float32(vectors.shape[1] * np.finfo(np.float32).eps)
    nearest_ids: list[IdArray] = []
    for at in range(0, len(points), _BATCH):
        scores = _products(points[at : at + _BATCH], vectors)
        if len(allow):
            np.copyto(scores, -np.inf, where=~allow)
        bounds = np.maximum(_bounds(scores, k) - rounding, np.finfo(np.float32).min)  # -inf is not allowed
        rows = (np.flatnonzero(row >= bound) for row, bound in zip(scores, bounds, strict=True))
        nearest_ids += rows if places is None else (places[row] for row in rows)
    return nearest_ids


def _products(points: FloatArray, vectors: FloatArray) -> FloatArray:
    """Returns the product of each point with each vector. Small ones are made in this thread: on a machine that has
    other work, waiting for the threads of a matrix product can take 40 ms."""
    small = len(points) * vectors.size <= _ONE_THREAD_PRODUCTS
    products: FloatArray = np.einsum("ij,kj->ik", points, vectors) if small else points @ vectors.T
    return products


def _bounds(scores: FloatArray, k: int) -> FloatArray:
    """Returns a score for each row that its k best reach. Of many scores, it is the k-th of the best of
    groups: k groups have a score that is at least as high, and it is found in a fraction of the time."""
    if scores.shape[1] >= 2 * _GROUP * k:
        size = scores.shape[1] // _GROUP
        scores = scores[:, : size * _GROUP].reshape(len(scores), _GROUP, size).max(axis=1)
    last = scores.shape[1] - k
    bounds: FloatArray = np.partition(scores, last, axis=1)[:, last]
    return bounds


def rescored(rows: FloatArray, point: FloatArray) -> FloatArray:
    """Returns the scores of vectors: float64 products, rounded once. So they do not depend on the order of a sum."""
    return (rows.astype(np.float64) @ point.astype(np.float64)).astype(np.float32)


# ---------------------------------------------------------------- building: named as the functions of `_kernels`


def expand(tokens: Any, sizes: Any, firsts: Any, terms: Any) -> tuple[Any, Any]:
    counts = np.diff(firsts)[tokens]
    ends = np.cumsum(counts)
    at = np.repeat(firsts[tokens] - (ends - counts), counts) + np.arange(int(counts.sum()))
    bounds = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    lengths = np.diff(np.concatenate([[0], ends])[bounds])
    return terms[at], lengths.astype(np.int32)


def count_postings(terms: Any, offsets: Any, n_terms: int) -> Any:
    chunks = max(1, len(offsets) - 1)
    pairs = np.sort(_pairs(terms, offsets))  # np.unique, which hashes, takes ten times as long
    first = np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]
    return np.bincount(pairs[first] // chunks, minlength=n_terms).astype(np.int64)


def fill_postings(terms: Any, counts: Any, offsets: Any, starts: Any) -> tuple[Any, Any]:
    chunks = max(1, len(offsets) - 1)
    pairs, at = np.unique(_pairs(terms, offsets), return_inverse=True)
    tfs = np.minimum(np.bincount(at.reshape(-1), weights=counts, minlength=len(pairs)), 65535)
    return (pairs % chunks).astype(np.int32), tfs.astype(np.uint16)


def transpose(starts: Any, docs: Any, tfs: Any, kept: Any, n_docs: int) -> tuple[Any, Any, Any]:
    renumbered = kept[docs]
    alive = renumbered >= 0
    terms = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))[alive]
    order = np.argsort(renumbered[alive], kind="stable")
    sizes = np.bincount(renumbered[alive], minlength=n_docs)
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    return offsets, terms[order], tfs[alive][order].astype(np.int32)


def greatest_tfs(docs: Any, tfs: Any, kind: Any, n_kinds: int) -> Any:
    greatest = np.zeros(n_kinds, np.int64)
    np.maximum.at(greatest, kind[docs], tfs.astype(np.int64))
    return greatest


def fill_shapes(docs: Any, tfs: Any, kind: Any, firsts: Any, shapes: Any) -> None:
    shapes[:] = firsts[kind[docs]] + tfs


def _pairs(terms: Any, offsets: Any) -> Any:
    """The term and the chunk of each occurrence as one number: the term first."""
    chunks = len(offsets) - 1
    return terms.astype(np.int64) * max(1, chunks) + np.repeat(np.arange(chunks), np.diff(offsets))
