"""Compiled loops of the exact vector search for one query. They release Python's lock, so two threads use two cores.

Vectors are also stored in bfloat16: the upper half of a float32, two bytes per number. Memory bandwidth limits a scan,
so it reads this copy, keeps the best in a heap, and scores the kept ones again in float32.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def to_half(vectors):  # type: ignore[no-untyped-def]
    """Converts float32 to bfloat16, rounding to the nearest, ties to even."""
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
    """Restores the heap (lowest score first) after its first entry was replaced."""
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
    """Finds the `count` best allowed vectors by the bfloat16 copy (an empty `allow` allows all).

    Returns their float32 scores, their places, and the lowest bfloat16 score that was kept. At least `count` vectors
    must be allowed.
    """
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
    """Finds the `count` best allowed vectors in float32; of equal scores, the first."""
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


@njit(cache=True, nogil=True)
def _coded(codes, i, weights):  # type: ignore[no-untyped-def]
    """The product of two rows of 8-bit integers. Processors have an instruction for it: in float32 it takes four times
    as long."""
    total = np.int32(0)
    for j in range(len(weights)):
        total += np.int32(codes[i, j]) * np.int32(weights[j])
    return total


@njit(cache=True, nogil=True)
def scan_cells(codes, members, firsts, lasts, weights, allow, count):  # type: ignore[no-untyped-def]
    """Finds the places of the `count` best allowed vectors by their 8-bit codes, among the rows firsts[c] to lasts[c]
    of each cell c. `members` has the place of each row. Fewer may be found."""
    kept = np.full(count, -(1 << 31), np.int32)
    places = np.full(count, -1, np.int64)
    for c in range(len(firsts)):
        for i in range(firsts[c], lasts[c]):
            if len(allow) and not allow[members[i]]:
                continue
            score = _coded(codes, i, weights)
            if score > kept[0]:
                kept[0], places[0] = score, members[i]
                _settle(kept, places, count)
    return places[places >= 0]
