"""Compiled loops of the exact vector search for one query. They hold no lock, so that two threads use two cores.

Vectors are also kept in bfloat16: the upper half of a float32, two bytes a number. A scan is bound by how fast memory
is read, so it reads those, keeps the best in a heap, and scores what it kept again in float32.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def to_half(vectors):  # type: ignore[no-untyped-def]
    """float32 -> bfloat16, to the nearest, ties to even."""
    n, dimension = vectors.shape
    half = np.empty((n, dimension), np.uint16)
    for i in range(n):
        for j in range(dimension):
            bits = np.uint64(np.float32(vectors[i, j]).view(np.uint32))
            half[i, j] = np.uint16(
                (bits + np.uint64(0x7FFF) + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
            )
    return half


@njit(cache=True, nogil=True, fastmath=True)
def _rough(half, i, point):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for j in range(len(point)):
        total += np.uint32(np.uint32(half[i, j]) << np.uint32(16)).view(np.float32) * point[j]
    return total


@njit(cache=True, nogil=True, fastmath=True)
def _exact(vectors, i, point):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for j in range(len(point)):
        total += vectors[i, j] * point[j]
    return total


@njit(cache=True, nogil=True)
def _settle(scores, places, size):  # type: ignore[no-untyped-def]
    """The lowest is first again, after the first was replaced."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and scores[child + 1] < scores[child]:
            child += 1
        if scores[at] <= scores[child]:
            return
        scores[at], scores[child] = scores[child], scores[at]
        places[at], places[child] = places[child], places[at]
        at = child


@njit(cache=True, nogil=True)
def scan_half(half, vectors, point, allow, count):  # type: ignore[no-untyped-def]
    """The `count` best by the bfloat16 copy among those allowed (`allow` is empty where all are), with their float32
    scores; and the lowest bfloat16 score that was kept. There are at least `count` allowed."""
    kept = np.full(count, -np.inf, np.float32)
    places = np.full(count, -1, np.int64)
    for i in range(len(half)):
        if len(allow) and not allow[i]:
            continue
        score = _rough(half, i, point)
        if score > kept[0]:
            kept[0], places[0] = score, i
            _settle(kept, places, count)
    scores = np.empty(count, np.float32)
    for k in range(count):
        scores[k] = _exact(vectors, places[k], point)
    return scores, places, kept[0]


@njit(cache=True, nogil=True)
def scan_exact(vectors, point, allow, count):  # type: ignore[no-untyped-def]
    """The `count` best among those allowed, in float32; of equal ones those that come first."""
    kept = np.full(count, -np.inf, np.float32)
    places = np.full(count, -1, np.int64)
    for i in range(len(vectors)):
        if len(allow) and not allow[i]:
            continue
        score = _exact(vectors, i, point)
        if score > kept[0]:
            kept[0], places[0] = score, i
            _settle(kept, places, count)
    return kept, places
