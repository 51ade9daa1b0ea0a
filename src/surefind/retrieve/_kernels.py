"""The numba kernels of BM25: building postings and scoring queries.

Scoring is term at a time into one array of accumulators. Two things make it fast:

- a term that stands in more than one chunk in `DENSE_SHARE` has its frequencies as one byte per chunk, in order:
  adding it is a straight vectorised loop, where following a posting list would jump about;
- the best k are found block by block: a block whose greatest score does not reach the k-th best is passed over,
  so that the scan over all chunks is a vectorised maximum.
"""

from __future__ import annotations

import numpy as np
from numba import njit

DENSE_SHARE = 12
_BLOCK = 64


@njit(cache=True, nogil=True)
def count_postings(terms, offsets, n_terms):  # type: ignore[no-untyped-def]
    """How many chunks each term stands in. `terms[offsets[d]:offsets[d+1]]` are the terms of chunk d."""
    df = np.zeros(n_terms, np.int64)
    last = np.full(n_terms, -1, np.int32)
    for d in range(len(offsets) - 1):
        for i in range(offsets[d], offsets[d + 1]):
            t = terms[i]
            if last[t] != d:
                last[t] = d
                df[t] += 1
    return df


@njit(cache=True, nogil=True)
def fill_postings(terms, counts, offsets, starts):  # type: ignore[no-untyped-def]
    """Chunk by chunk into term by term. `counts` are the frequencies of `terms` (ones for raw text)."""
    n_terms = len(starts) - 1
    docs = np.empty(starts[n_terms], np.int32)
    tfs = np.empty(starts[n_terms], np.uint16)
    at = starts[:n_terms].copy()
    last = np.full(n_terms, -1, np.int32)
    for d in range(len(offsets) - 1):
        for i in range(offsets[d], offsets[d + 1]):
            t = terms[i]
            if last[t] == d:
                p = at[t] - 1
                tfs[p] = min(np.int64(tfs[p]) + counts[i], 65535)
            else:
                last[t] = d
                docs[at[t]] = d
                tfs[at[t]] = min(counts[i], 65535)
                at[t] += 1
    return docs, tfs


@njit(cache=True, nogil=True)
def transpose(starts, docs, tfs, kept, n_docs):  # type: ignore[no-untyped-def]
    """Postings back into chunk-by-chunk form, chunks renumbered by `kept` (-1: dropped)."""
    offsets = np.zeros(n_docs + 1, np.int64)
    for p in range(len(docs)):
        d = kept[docs[p]]
        if d >= 0:
            offsets[d + 1] += 1
    for d in range(n_docs):
        offsets[d + 1] += offsets[d]
    terms = np.empty(offsets[n_docs], np.int32)
    counts = np.empty(offsets[n_docs], np.int32)
    at = offsets[:n_docs].copy()
    for t in range(len(starts) - 1):
        for p in range(starts[t], starts[t + 1]):
            d = kept[docs[p]]
            if d >= 0:
                terms[at[d]] = t
                counts[at[d]] = tfs[p]
                at[d] += 1
    return offsets, terms, counts


@njit(cache=True, nogil=True)
def dense_rows(starts, docs, tfs, rows, n_docs):  # type: ignore[no-untyped-def]
    """One byte per chunk for each term of `rows`."""
    table = np.zeros((len(rows), n_docs), np.uint8)
    for r in range(len(rows)):
        for p in range(starts[rows[r]], starts[rows[r] + 1]):
            table[r, docs[p]] = tfs[p]
    return table


@njit(cache=True, nogil=True, fastmath=True)
def _add_dense(scores, row, weight, norm):  # type: ignore[no-untyped-def]
    for d in range(len(scores)):
        tf = np.float32(row[d])
        scores[d] += weight * tf / (tf + norm[d])


@njit(cache=True, nogil=True, fastmath=True)
def _add_sparse(scores, docs, tfs, weight, norm):  # type: ignore[no-untyped-def]
    for p in range(len(docs)):
        d = docs[p]
        tf = np.float32(tfs[p])
        scores[d] += weight * tf / (tf + norm[d])


@njit(cache=True, nogil=True, fastmath=True)
def _block_maximum(scores, start, stop):  # type: ignore[no-untyped-def]
    best = np.float32(0.0)
    for d in range(start, stop):
        best = max(best, scores[d])
    return best


@njit(cache=True, nogil=True)
def _sift_down(heap_s, heap_d, size):  # type: ignore[no-untyped-def]
    """Restore the heap whose root is the worst: the lowest score, and of equals the latest chunk."""
    i = 0
    s, d = heap_s[0], heap_d[0]
    while True:
        c = 2 * i + 1
        if c >= size:
            break
        if c + 1 < size and (heap_s[c + 1] < heap_s[c] or (heap_s[c + 1] == heap_s[c] and heap_d[c + 1] > heap_d[c])):
            c += 1
        if heap_s[c] < s or (heap_s[c] == s and heap_d[c] > d):
            heap_s[i], heap_d[i] = heap_s[c], heap_d[c]
            i = c
        else:
            break
    heap_s[i], heap_d[i] = s, d


@njit(cache=True, nogil=True)
def _best(scores, allow, k, out_d, out_s):  # type: ignore[no-untyped-def]
    """The k best allowed chunks with a score above 0, best first, into out_d and out_s."""
    heap_s = np.full(k, np.float32(0.0), np.float32)
    heap_d = np.full(k, np.int32(2147483647), np.int32)
    n = len(scores)
    masked = len(allow) > 0
    start = 0
    while start < n:
        stop = min(start + _BLOCK, n)
        if _block_maximum(scores, start, stop) > heap_s[0]:
            for d in range(start, stop):
                if scores[d] > heap_s[0] and (not masked or allow[d]):
                    heap_s[0], heap_d[0] = scores[d], d
                    _sift_down(heap_s, heap_d, k)
        start = stop
    for size in range(k, 0, -1):
        if heap_s[0] > 0:
            out_d[size - 1], out_s[size - 1] = heap_d[0], heap_s[0]
        heap_s[0], heap_d[0] = heap_s[size - 1], heap_d[size - 1]
        _sift_down(heap_s, heap_d, size - 1)


@njit(cache=True, nogil=True)
def search(terms, offsets, weights, starts, docs, tfs, dense_of, table, norm, allow, k, out_d, out_s):  # type: ignore[no-untyped-def]
    """Top k for each query; query q asks for terms[offsets[q]:offsets[q+1]], each with its weight."""
    scores = np.empty(len(norm), np.float32)
    for q in range(len(offsets) - 1):
        scores[:] = 0
        for i in range(offsets[q], offsets[q + 1]):
            t = terms[i]
            row = dense_of[t]
            if row >= 0:
                _add_dense(scores, table[row], weights[i], norm)
            else:
                _add_sparse(scores, docs[starts[t] : starts[t + 1]], tfs[starts[t] : starts[t + 1]], weights[i], norm)
        _best(scores, allow, k, out_d[q], out_s[q])
