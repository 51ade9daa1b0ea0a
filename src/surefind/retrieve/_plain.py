"""Searches by numpy alone, for a process that searches once: loading the compiled kernels would take longer than the
search. The results are the same, bit by bit.

Postings: the kernel adds weight · gain in float32, term by term, and so does this. Vectors: both ways find the best
places, and `rescored` gives them their scores.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from surefind.types import BoolArray, FloatArray, IdArray

DENSE_SHARE = 4
"""A term that occurs in more than one chunk in this many has a row of its own."""
_MOST = 3_000_000
"""Postings or numbers of an index up to which a search by numpy is faster than loading the kernels."""
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
    return queries == 1 and size <= _MOST and f"surefind.retrieve.{kernels}" not in sys.modules


def best_chunks(terms: list[tuple[float, Any, Any]], allow: BoolArray, n: int, k: int) -> tuple[IdArray, FloatArray]:
    """Returns the k best of n chunks and their scores. Each term has its weight, its chunks and their gains, in the
    order in which the kernel adds them. Chunks without a term are left out; of equal scores, the first is better."""
    scores = np.zeros(n, np.float32)
    if len(allow):
        scores[~allow] = _FORBIDDEN
    for weight, chunks, gains in terms:
        scores[chunks] += np.float32(weight) * gains
    found = np.flatnonzero(scores > 0)
    keys = (scores[found].view(np.int32).astype(np.int64) << 32) | (_LAST - found)
    if len(keys) > k:
        keys = np.partition(keys, len(keys) - k)[len(keys) - k :]
    best = _LAST - (np.sort(keys)[::-1] & _LAST)
    return best, scores[best]


def nearest(vectors: FloatArray, point: FloatArray, allow: BoolArray, k: int) -> IdArray:
    """Returns the places of the k allowed vectors that are nearest to a point, and some more for rounding."""
    scores = vectors @ point
    if len(allow):
        scores = np.where(allow, scores, -np.inf)
    more = min(len(scores), k + 100)
    found: IdArray = np.argpartition(-scores, more - 1)[:more]
    finite: IdArray = found[np.isfinite(scores[found])]
    return finite


def rescored(rows: FloatArray, point: FloatArray) -> FloatArray:
    """Returns the scores of vectors: float64 products, rounded once. So they do not depend on the order of a sum."""
    return (rows.astype(np.float64) @ point.astype(np.float64)).astype(np.float32)
